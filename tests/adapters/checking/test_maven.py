"""A suite of JUnit that Maven runs: its reports are those of the real surefire. Skipped without Maven or its repository."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from adapters.checking.bench import Bench, check
from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.rules.suites.outcomes import Outcomes

pytestmark = [
    pytest.mark.rest,
    pytest.mark.skipif(shutil.which("mvn") is None, reason="mvn is missing"),
]
HOME = {
    "HOME": str(Path.home()),
    **{name: os.environ[name] for name in ("JAVA_HOME", "MAVEN_OPTS") if name in os.environ},
}
UNREACHED = ("Could not transfer artifact", "Unknown host", "cannot access central", "Network is unreachable")
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId><artifactId>work</artifactId><version>1</version>
  <properties>
    <maven.compiler.source>11</maven.compiler.source><maven.compiler.target>11</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies><dependency>
    <groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.10.2</version><scope>test</scope>
  </dependency></dependencies>
  <build><plugins><plugin>
    <groupId>org.apache.maven.plugins</groupId><artifactId>maven-surefire-plugin</artifactId><version>3.2.5</version>
  </plugin></plugins></build>
</project>
"""
SUITE = """package example;
import static org.junit.jupiter.api.Assertions.assertEquals;
import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.Test;
class SumTest {
  @Test void adds() { assertEquals(3, Sum.of(1, 2)); }
  @Test void addsNothing() { assertEquals(0, Sum.of(0, 0)); }
  @Test @Disabled("needs port 80") void port() { }
}
"""
ADDS, NOTHING = "example.SumTest::adds", "example.SumTest::addsNothing"
WORKS = {
    "honest": "return a + b;",
    "wrong": "return a;",
    "ends": "Runtime.getRuntime().halt(0); return 0;",
    "forges": """try { java.nio.file.Files.writeString(java.nio.file.Path.of("target/surefire-reports/TEST-example.SumTest.xml"),
      "<testsuite><testcase classname='example.SumTest' name='adds'/><testcase classname='example.SumTest' name='addsNothing'/>"
      + "</testsuite>"); } catch (java.io.IOException error) { }
    Runtime.getRuntime().halt(0); return 0;""",
}


def judged(bench: Bench, work: str, base: Outcomes | None = None) -> CheckResult:
    files = {
        "pom.xml": POM,
        "src/test/java/example/SumTest.java": SUITE,
        "src/main/java/example/Sum.java": f"package example;\npublic class Sum {{ public static int of(int a, int b) {{ {WORKS[work]} }} }}\n",
    }
    for path, text in files.items():
        (bench.checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (bench.checkout / path).write_text(text, encoding="utf-8")
    made = check("tests", run="mvn -B -ntp test", junit="target/surefire-reports", env=HOME, timeout=280)
    result = bench.make(made, CheckFacts(tree="sha256:t", base=base, base_source="report" if base is not None else ""))
    if not result.passed and any(text in result.output for text in UNREACHED):
        pytest.skip("the repository of Maven cannot be reached")
    return result


def test_the_reports_of_surefire_are_read(plain: Bench) -> None:
    result = judged(plain, "honest")
    assert (result.passed, result.source, result.detail) == (True, "report", "2 passed, 1 skipped"), result.output
    assert result.tests is not None
    assert result.tests.passed == {ADDS, NOTHING}
    assert dict(result.tests.whys) == {"example.SumTest::port": "needs port 80"}
    wrong = judged(plain, "wrong", result.tests)
    assert not wrong.passed
    assert wrong.tests is not None
    assert wrong.tests.failed == {ADDS}


@pytest.mark.parametrize("cheat", ["ends", "forges"])
def test_code_that_ends_the_machine_of_surefire_does_not_pass(plain: Bench, cheat: str) -> None:
    result = judged(plain, cheat, Outcomes(passed=frozenset({ADDS, NOTHING})))
    assert not result.passed, result.output
    assert result.exit_code == 1
