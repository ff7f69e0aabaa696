export default globalThis[Symbol.for('reporter')];
