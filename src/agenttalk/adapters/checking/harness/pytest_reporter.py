# A plugin of pytest that reports every test. It stands behind channel_client.py, in one module.
import pytest


def _explain(report):
    """Return the reason that a report gives for a skip."""
    if hasattr(report, "wasxfail"):
        return "xfail: %s" % (report.wasxfail,)
    where = report.longrepr
    return str(where[2]) if isinstance(where, tuple) and len(where) == 3 else str(where or "")


class _Run:
    """What became of one test so far."""

    __slots__ = ("called", "failed", "raised", "skipped", "why")

    def __init__(self):
        self.called = self.failed = self.raised = self.skipped = False
        self.why = ""

    def add(self, report):
        if report.outcome == "failed":
            self.failed = True
        elif report.outcome == "skipped":
            if not hasattr(report, "context"):  # a part of a test that was skipped leaves the others
                self.skipped = True
                self.why = _explain(report)
        elif report.outcome == "passed":
            self.called = self.called or (report.when == "call" and not hasattr(report, "context"))
        else:  # it is run again
            self.__init__()

    def end(self):
        if self.failed:
            return "failed"
        if self.skipped or not self.called:
            return "skipped"
        return "hidden" if self.raised else "passed"


@pytest.hookimpl(trylast=True)
def _reorder(items):
    """Run the files of a suite from the last to the first; the tests of each file stay in their order."""
    files = {}
    for item in items:
        files.setdefault(str(item.fspath), []).append(item)
    items[:] = [item for name in reversed(list(files)) for item in files[name]]


def _make_hooks():
    """Make the hooks. What they share is in no namespace that a module could be asked for."""
    say, send = _start_report("pytest")
    top = os.path.realpath(os.getcwd())
    runs = {}
    known = set()
    ending = {"session": None}

    def announce(names):
        fresh = [name for name in names if name not in known]
        known.update(fresh)
        for start in range(0, len(fresh), 200):
            say("tests", fresh[start : start + 200])
        send()

    def pytest_sessionstart(session):
        ending["session"] = session

    def pytest_collectreport(report):
        if report.outcome != "passed":
            say("begin", report.nodeid or ".")
            failed = report.outcome == "failed"
            say("end", report.nodeid or ".", "failed" if failed else "skipped", "" if failed else _explain(report))

    def pytest_collection_finish(session):
        announce([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(node, ids):
        announce(ids)

    def pytest_runtest_logstart(nodeid, location):
        runs[nodeid] = _Run()
        say("begin", nodeid)
        send()

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(item):
        run = runs.get(item.nodeid)
        if run is not None:
            run.raised = False
        outcome = yield
        if run is not None and outcome.excinfo is not None:
            run.raised = not issubclass(outcome.excinfo[0], (pytest.skip.Exception, pytest.exit.Exception))

    def pytest_runtest_logreport(report):
        if report.outcome == "passed" and report.when != "call":
            return
        run = runs.get(report.nodeid)
        if run is None:
            pytest_runtest_logstart(report.nodeid, None)
            run = runs[report.nodeid]
        run.add(report)

    def pytest_runtest_logfinish(nodeid, location):
        run = runs.pop(nodeid, None)
        if run is not None:
            say("end", nodeid, run.end(), run.why if run.skipped else "")

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(config):
        session = ending["session"]
        _end_report(say, send, top, int(session.exitstatus) if session is not None else 0)

    return {name: hook for name, hook in locals().items() if name.startswith("pytest_")}


globals().update(_make_hooks())
