// Reports the tests of jest and vitest, from the process that starts the others. Loaded by node_reporter.cjs.
'use strict';

const Module = require('module');
const path = require('path');
const { realpathSync } = require('fs');
const { pathToFileURL } = require('url');
const { changed } = require('./c.cjs');

/** Return what reports tests, and the end of the run. */
function begin(runner, { connect, shorten, clip }) {
  const send = connect();
  if (send === null) return null;
  let complete = false;
  let said = 0;
  send(['hello', 1, runner]);
  process.once('exit', (code) => {
    if (complete || code !== 0) send(['over', code || said]);
  });
  const name = (file, titles) => clip([shorten(file), titles.join(' > ')].filter(Boolean).join('::'));
  return {
    announce: (file, titles) => send(['tests', [name(file, titles)]]),
    end: (file, titles, outcome, why) => send(
      ['begin', name(file, titles)],
      ['end', name(file, titles), outcome, clip(why || '')],
    ),
    finish: (code) => {
      complete = true;
      said = code;
    },
  };
}

const JEST = { passed: 'passed' };

/** Return how a test ended that failed: hidden, if what it asserts with was changed. */
const judge = (messages) => (messages.some((each) => String(each).includes(changed)) ? 'hidden' : 'failed');

/** Add a reporter to the settings of jest, beside its own or those of the project. */
function reportJest(report) {
  class Reporter {
    constructor(config) {
      this.config = config;
      this.seen = 0;
    }

    onTestResult(test, result) {
      this.seen += 1;
      for (const each of result.testResults || []) {
        const waits = each.status === 'todo' ? 'todo' : '';
        const outcome = each.status === 'failed' ? judge(each.failureMessages || []) : JEST[each.status] || 'skipped';
        report.end(test.path, [...each.ancestorTitles, each.title], outcome, waits);
      }
      if (result.testExecError || (result.failureMessage && !result.numFailingTests)) {
        report.end(test.path, [], judge([result.failureMessage]));
      }
    }

    onRunComplete(_, results) {
      const red = results.numFailedTests || results.numFailedTestSuites || results.numRuntimeErrorTestSuites;
      if (red || this.seen === results.numTotalTestSuites) report.finish(red ? this.config.testFailureExitCode || 1 : 0);
    }
  }
  const place = path.join(__dirname, 'jest-reporter.cjs');
  const load = Module._load;
  Module._load = function find(request, ...rest) {
    if (request === place) return Reporter;
    const module = load.call(this, request, ...rest);
    if (request !== 'jest-config' || typeof module.readConfigs !== 'function') return module;
    const readConfigs = async (...values) => {
      const read = await module.readConfigs(...values);
      const others = read.globalConfig.reporters || [['default', {}]];
      const setup = path.join(__dirname, 'j.cjs');
      const configs = read.configs.map((each) => (
        { ...each, setupFilesAfterEnv: [...(each.setupFilesAfterEnv || []), setup] }
      ));
      return { ...read, configs, globalConfig: { ...read.globalConfig, reporters: [...others, [place, {}]] } };
    };
    return new Proxy({}, {
      get: (_, key) => (key === 'readConfigs' ? readConfigs : module[key]),
      has: (_, key) => key in module,
      ownKeys: () => Reflect.ownKeys(module),
      getOwnPropertyDescriptor: (_, key) => (
        key in module ? { value: module[key], enumerable: true, configurable: true } : undefined
      ),
    });
  };
}

/** Add a reporter to the command line of vitest. */
function reportVitest(report) {
  const walk = (task, titles, take) => {
    for (const each of task.tasks || []) {
      if (each.type === 'suite') walk(each, [...titles, each.name], take);
      else take(each, [...titles, each.name]);
    }
  };
  globalThis[Symbol.for('reporter')] = class {
    onInit(vitest) {
      process.env.VITEST_PLACE = pathToFileURL(path.join(path.dirname(realpathSync(process.argv[1])), 'dist/index.js')).href;
      for (const { config } of vitest.projects) {
        if (!config.browser || !config.browser.enabled) config.setupFiles.push(path.join(__dirname, 'w.mjs'));
      }
    }

    onFinished(files = [], errors = []) {
      for (const file of files) {
        walk(file, [], (task, titles) => {
          const state = task.result && task.result.state;
          const outcome = state === 'pass' ? 'passed' : state === 'fail' ? 'failed' : 'skipped';
          report.end(file.filepath, titles, outcome, task.mode === 'todo' ? 'todo' : '');
        });
        if (file.result && file.result.state === 'fail' && !(file.tasks || []).length) report.end(file.filepath, [], 'failed');
      }
      report.finish(errors.length ? 1 : 0);
    }

    onTestRunEnd(modules, errors) {
      this.onFinished = () => {};
      for (const file of modules) {
        for (const test of file.children.allTests()) {
          const titles = [test.name];
          for (let above = test.parent; above && above.type === 'suite'; above = above.parent) titles.unshift(above.name);
          const { state, note } = test.result();
          const outcome = { passed: 'passed', failed: 'failed' }[state] || 'skipped';
          const passed = outcome === 'skipped' && state === 'pending' ? 'failed' : outcome;
          report.end(file.moduleId, titles, passed, test.options.mode === 'todo' ? 'todo' : note);
        }
        if (file.errors().length) report.end(file.moduleId, [], judge(file.errors().map((each) => each.message)));
      }
      report.finish(errors.length ? 1 : 0);
    }
  };
  const words = process.argv;
  const end = words.indexOf('--') < 0 ? words.length : words.indexOf('--');
  const own = words.some((word) => word.startsWith('--reporter'));
  const added = [...(own ? [] : ['--reporter=default']), `--reporter=${path.join(__dirname, 'v.mjs')}`];
  words.splice(end, 0, ...added);
}

module.exports = (runner, tools) => {
  const report = begin(runner, tools);
  if (report === null) return;
  tools.forget();
  (runner === 'jest' ? reportJest : reportVitest)(report);
};
