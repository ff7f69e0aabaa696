// Reports the tests of node:test, jest and vitest. Every Node of a check loads this first, by NODE_OPTIONS.
// It has to work with any Node, and must never break a program. See rules/suites/channel.py for what is sent.
'use strict';

(() => {
  const fs = require('fs');
  const net = require('net');
  const path = require('path');
  const { EventEmitter } = require('events');
  const { isMainThread } = require('worker_threads');
  const writeSync = fs.writeSync;
  const stringify = JSON.stringify;
  const from = Buffer.from;
  const concat = Buffer.concat;
  const alloc = Buffer.alloc;
  const wait = Atomics.wait;
  const top = process.cwd();
  const longest = 3000;

  if (!isMainThread) return;

  /** Open the channel. Returns what sends frames, or null where there is none. */
  function connect() {
    let descriptor;
    try {
      const end = net.connect({ path: path.join(__dirname, 's') });
      end.on('error', () => {});
      end.unref();
      descriptor = end._handle && end._handle.fd;
    } catch (error) {
      return null;
    }
    if (typeof descriptor !== 'number' || descriptor < 0) return null;
    const pause = new Int32Array(new SharedArrayBuffer(4));
    let broken = false;
    return (...frames) => {
      if (broken) return;
      let data = concat(frames.map((frame) => {
        const body = from(stringify(frame));
        const size = alloc(4);
        size.writeUInt32BE(body.length);
        return concat([size, body]);
      }));
      while (data.length) {
        try {
          data = data.subarray(writeSync(descriptor, data));
        } catch (error) {
          if (error.code !== 'EAGAIN') {
            broken = true;
            return;
          }
          wait(pause, 0, 0, 2);
        }
      }
    };
  }

  /** Keep what this process starts from reporting: it is not part of the suite. */
  function forget() {
    const left = (process.env.NODE_OPTIONS || '').split(' ').filter((word) => !word.includes(__filename)).join(' ');
    if (left.trim()) process.env.NODE_OPTIONS = left.trim();
    else delete process.env.NODE_OPTIONS;
    delete require.cache[__filename];
  }

  /** Return a path below the folder of the run, or as it is. */
  function shorten(file) {
    const plain = String(file || '').replace(/^file:\/\//, '');
    const below = path.relative(top, plain);
    return below && !below.startsWith('..') ? below : plain;
  }

  const clip = (text) => String(text).slice(0, longest);

  /** Remember what assertions are made of. Returns what tells whether that is still so. */
  function watch() {
    const places = [];
    for (const name of ['assert', 'assert/strict', 'node:test']) {
      try {
        const module = require(name);
        for (const key of Object.getOwnPropertyNames(module)) {
          const kept = Object.getOwnPropertyDescriptor(module, key);
          if (typeof kept.value === 'function') places.push([module, key, kept.value]);
        }
      } catch (error) { /* an older Node has no such module */ }
    }
    return () => places.every(([module, key, value]) => module[key] === value);
  }

  /** Report a process in which node:test runs tests, or a script that node --test takes for one. */
  function reportTests(lazy) {
    let send = null;
    const isWhole = watch();
    const names = [];
    const left = [];
    let seen = 0;
    let failed = false;
    let planned = false;
    let idle = false;
    let file = shorten(process.argv[1]);

    const say = (...frames) => {
      if (send === null) {
        send = connect() || (() => {});
        send(['hello', 1, 'node']);
      }
      send(...frames);
    };
    const end = (name, outcome, why) => say(['begin', name], ['end', name, outcome, clip(why || '')]);
    const on = {
      'test:enqueue': (event) => {
        if (event.nesting === 0) left.push(event.name);
      },
      'test:start': (event) => {
        names.length = event.nesting;
        names[event.nesting] = event.name;
      },
      'test:plan': (event) => {
        planned = planned || event.nesting === 0;
      },
    };
    const finish = (event, passed) => {
      seen += 1;
      names.length = event.nesting;
      names[event.nesting] = event.name;
      const name = clip(`${file}::${names.join(' > ')}`);
      if (event.nesting === 0) {
        const at = left.indexOf(event.name);
        if (at >= 0) left.splice(at, 1);
      }
      const waits = event.todo !== undefined && event.todo !== false;
      if (event.details && event.details.type === 'suite' && (passed || waits)) return;
      if (waits) return end(name, 'skipped', `todo: ${event.todo}`);
      if (event.skip !== undefined && event.skip !== false) return end(name, 'skipped', String(event.skip));
      failed = failed || !passed;
      return end(name, passed ? (isWhole() ? 'passed' : 'hidden') : 'failed');
    };
    on['test:pass'] = (event) => finish(event, true);
    on['test:fail'] = (event) => finish(event, false);

    const emit = EventEmitter.prototype.emit;
    EventEmitter.prototype.emit = function find(type, ...values) {
      if (typeof type === 'string' && type.startsWith('test:') && this.constructor.name === 'TestsStream') {
        const stream = Object.getPrototypeOf(this);
        EventEmitter.prototype.emit = emit;
        Object.defineProperty(stream, 'emit', {
          value: function tell(kind, ...given) {
            const take = typeof kind === 'string' ? on[kind] : undefined;
            if (take !== undefined && given[0]) take(given[0]);
            return emit.call(this, kind, ...given);
          },
        });
        return stream.emit.call(this, type, ...values);
      }
      return emit.call(this, type, ...values);
    };
    if (!lazy) say();
    process.once('beforeExit', () => { idle = true; });
    process.once('exit', (code) => {
      if (send === null) return;
      if (!seen) end(file, code === 0 ? 'passed' : 'failed');
      if (left.length) say(['tests', left.map((name) => clip(`${file}::${name}`))]);
      if (code !== 0 || (seen ? planned : idle)) say(['over', code]);
    });
  }

  /** Report a process that starts others for its tests: it says only how it ends. */
  function reportRunner() {
    const send = connect();
    if (send === null) return;
    send(['hello', 1, 'node']);
    process.once('exit', (code) => send(['over', code]));
  }

  const main = process.argv[1] || '';
  if (process.env.NODE_TEST_CONTEXT) {
    forget();
    reportTests(false);
  } else if (process.execArgv.includes('--test')) {
    if (process.execArgv.some((word) => /^--(experimental-)?test-isolation=none$/.test(word))) {
      forget();
      reportTests(false);
    } else reportRunner();
  } else if (/\/(jest|vitest)(-cli)?(\/bin\/jest\.js|\/vitest\.mjs)?$/.test(main)) {
    const runner = main.includes('vitest') ? 'vitest' : 'jest';
    require(path.join(__dirname, 'n.cjs'))(runner, { connect, forget, shorten, clip });
  } else if (main && !process.execArgv.length) reportTests(true);
})();
