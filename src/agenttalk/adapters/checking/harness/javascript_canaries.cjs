// Tries assertions of jest and vitest inside the process of the tests: half of them must hold, half must fail.
'use strict';

const assert = require('assert');
const { randomInt } = require('crypto');

const changed = 'what tests assert with was changed while they ran';

/** Return assertions in pairs: one that must hold, and one that must fail. Their values cannot be foreseen. */
function list() {
  const low = randomInt(1e6, 1e9);
  const high = low + randomInt(1, 1e6);
  const fail = () => { throw new RangeError(`x${low}`); };
  return [
    [(e) => e(low).toBe(low), (e) => e(low).toBe(high)],
    [(e) => e(low).not.toBe(high), (e) => e(low).not.toBe(low)],
    [(e) => e({ k: [low] }).toEqual({ k: [low] }), (e) => e({ k: [low] }).toEqual({ k: [high] })],
    [(e) => e([low, 'x']).toStrictEqual([low, 'x']), (e) => e([low, 'x']).toStrictEqual([high, 'x'])],
    [(e) => e({ k: low, m: 1 }).toMatchObject({ k: low }), (e) => e({ k: low }).toMatchObject({ k: high })],
    [(e) => e(low).toBeTruthy(), (e) => e(low - low).toBeTruthy()],
    [(e) => e('').toBeFalsy(), (e) => e(`${low}`).toBeFalsy()],
    [(e) => e(null).toBeNull(), (e) => e(low).toBeNull()],
    [(e) => e(undefined).toBeUndefined(), (e) => e(low).toBeUndefined()],
    [(e) => e(low).toBeDefined(), (e) => e(undefined).toBeDefined()],
    [(e) => e(low).toBeLessThan(high), (e) => e(high).toBeLessThan(low)],
    [(e) => e(high).toBeGreaterThan(low), (e) => e(low).toBeGreaterThan(high)],
    [(e) => e(low).toBeCloseTo(low + 1e-9), (e) => e(low).toBeCloseTo(high)],
    [(e) => e([low]).toContain(low), (e) => e([low]).toContain(high)],
    [(e) => e(`x${low}`).toMatch(`${low}`), (e) => e(`x${low}`).toMatch(/y/)],
    [(e) => e([low]).toHaveLength(1), (e) => e([low]).toHaveLength(2)],
    [(e) => e({ k: low }).toHaveProperty('k', low), (e) => e({ k: low }).toHaveProperty('k', high)],
    [(e) => e(fail).toThrow(`x${low}`), (e) => e(() => low).toThrow()],
    [() => assert.strictEqual(low, low), () => assert.strictEqual(low, high)],
    [() => assert.deepStrictEqual([low], [low]), () => assert.deepStrictEqual([low], [high])],
    [() => assert.ok(low), () => assert.ok(low - low)],
  ];
}

/** Return which of the assertions do what they must. */
function tryAll(expect) {
  const state = expect.getState && { ...expect.getState() };
  const held = list().map((pair) => pair.map((assertion, at) => {
    try {
      assertion(expect);
      return at === 0;
    } catch (error) {
      return at === 1;
    }
  }));
  if (state) expect.setState(state);
  return held.flat();
}

/** Try the assertions before the tests of a file, and again afterwards: what held must hold. */
module.exports = (read, afterAll) => {
  const before = tryAll(read());
  afterAll(() => {
    let after = [];
    try {
      after = tryAll(read());
    } catch (error) { /* there is no such function any more */ }
    if (!before.every((held, at) => !held || after[at])) throw new Error(changed);
  });
};
module.exports.changed = changed;
