# Reports every test of `python -m unittest`. It stands behind channel_client.py, in one module.
import unittest
import unittest.case
import unittest.main
import unittest.runner

__unittest = True  # keeps our frames out of tracebacks


def _list_tests(suite):
    """List the tests of a suite, however deep they lie."""
    if isinstance(suite, unittest.TestSuite):
        return [test for part in suite for test in _list_tests(part)]
    return [suite]


def _name(test):
    """Return the name of a test, or of a module that could not be loaded."""
    if type(test).__name__ in ("_FailedTest", "ModuleImportFailure", "LoadTestsFailure"):
        return str(getattr(test, "_testMethodName", test))
    place, _, last = test.id().rpartition(".")
    return place + "::" + last if place and "(" not in test.id() else test.id()


def _arm():
    """Have unittest report. What the functions share is in no namespace that a module could be asked for."""
    program, case, basic = sys.modules["unittest.main"].TestProgram, unittest.TestCase, unittest.TextTestResult
    run_tests, call_method = program.runTests, getattr(case, "_callTestMethod", None)
    say, send = _start_report("unittest")
    top = os.path.realpath(os.getcwd())
    left, raised, known = {}, set(), []

    def end_alone(test, outcome, why):
        """Report what ended without having begun: the preparation of a class or a module."""
        name = _name(test)
        skipped = name.partition("(")[2].rstrip(")") if outcome == "skipped" else ""
        for each in (
            [name] if not skipped else [each for each in known if each.startswith((skipped + ".", skipped + "::"))]
        ):
            say("begin", each)
            say("end", each, outcome, why)

    class ReportingResult(basic):
        """A result that reports what it gets before anything else sees it."""

        def startTest(self, test):
            left[id(test)] = ("", "")
            say("begin", _name(test))
            send()
            super().startTest(test)

        def stopTest(self, test):
            outcome, why = left.pop(id(test), ("", ""))
            if outcome == "passed" and id(test) in raised:
                outcome = "hidden"
            raised.discard(id(test))
            say("end", _name(test), outcome or "skipped", why)
            super().stopTest(test)

        def note(self, test, outcome, why=""):
            if id(test) not in left:
                end_alone(test, outcome, why)
            elif left[id(test)][0] != "failed":
                left[id(test)] = (outcome, why)

        def addSuccess(self, test):
            self.note(test, left.get(id(test), ("",))[0] or "passed")
            super().addSuccess(test)

        def addError(self, test, err):
            self.note(test, "failed")
            super().addError(test, err)

        def addFailure(self, test, err):
            self.note(test, "failed")
            super().addFailure(test, err)

        def addSubTest(self, test, subtest, err):
            if err is not None:
                self.note(test, "failed")
            super().addSubTest(test, subtest, err)

        def addSkip(self, test, reason):
            if id(test) in left or not isinstance(test, unittest.case._SubTest):
                self.note(test, "skipped", str(reason))
            super().addSkip(test, reason)

        def addExpectedFailure(self, test, err):
            self.note(test, "skipped", "xfail")
            super().addExpectedFailure(test, err)

        def addUnexpectedSuccess(self, test):
            self.note(test, "failed")
            super().addUnexpectedSuccess(test)

    def call(self, method):
        raised.discard(id(self))
        try:
            return call_method(self, method)
        except unittest.SkipTest:
            raise
        except BaseException:
            raised.add(id(self))
            raise

    def run(self):
        known.extend(_name(test) for test in _list_tests(self.test))
        for start in range(0, len(known), 200):
            say("tests", known[start : start + 200])
        code = 0
        try:
            run_tests(self)
        except SystemExit as ended:
            code = ended.code
            raise
        finally:
            _end_report(say, send, top, int(code) if isinstance(code, int) else 1)

    unittest.runner.TextTestRunner.resultclass = ReportingResult
    if call_method is not None:
        case._callTestMethod = call
    program.runTests = run


_arm()
