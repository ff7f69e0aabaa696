"""Runs all tests beside this file and writes the result of each as JUnit XML, to the file that is named."""

import pathlib
import sys
import unittest
from xml.etree import ElementTree

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent)]


class Told(unittest.TestResult):
    """Keeps every test, and what was wrong with it."""

    def __init__(self):
        super().__init__()
        self.wrong = {}
        self.names = []

    def startTest(self, test):
        super().startTest(test)
        self.names.append(test.id())

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.wrong[test.id()] = f"{error[0].__name__}: {error[1]}"

    addError = addFailure


told = Told()
unittest.defaultTestLoader.discover(str(here)).run(told)
suite = ElementTree.Element("testsuite", tests=str(len(told.names)), failures=str(len(told.wrong)))
for name in told.names:
    kind, _, method = name.rpartition(".")
    case = ElementTree.SubElement(suite, "testcase", classname=kind, name=method)
    if name in told.wrong:
        ElementTree.SubElement(case, "failure", message=told.wrong[name])
ElementTree.ElementTree(suite).write(sys.argv[1], encoding="utf-8", xml_declaration=True)
passed = len(told.names) - len(told.wrong)
print(f"{passed} of {len(told.names)} tests pass ({100 * passed // len(told.names)} %)")
for name, why in told.wrong.items():
    print(f"  {name.rpartition('.')[2]}: {why}")
sys.exit(bool(told.wrong))
