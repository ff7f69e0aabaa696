"""Proves a change that another program's agent made: runs the check on its trees, each in a sealed checkout."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agenttalk.adapters.checking.checker import Checker, CheckFacts
from agenttalk.adapters.checking.command import CheckContext
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.proving.change_trees import ChangeEnds, ChangeTrees
from agenttalk.adapters.workspaces.preparation import PreparationRecipe, PreparationRun, PreparedTree
from agenttalk.rules.changes import change_proof
from agenttalk.rules.changes.change_proof import ChangeProof, ChangeUnderProof, CheckRuns
from agenttalk.rules.checks import check_results, suite_results, test_runners
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.rules.text.message import Message

Announce = Callable[[str], None]
"""Gets the name of each run before it begins: `work`, `held`, `base` or `red`."""
_LONGEST_OUTPUT: Final = 4000


@dataclass(frozen=True, slots=True)
class ProvenChange:
    """The proof of a change, with the run of the check that explains it."""

    proof: ChangeProof
    runs: CheckRuns

    @property
    def output(self) -> str:
        """What the check printed where it failed first."""
        failed = [each for each in (self.runs.work, self.runs.held) if each is not None and not each.passed]
        return (failed[0] if failed else self.runs.work).output


class ChangeProver:
    """Proves changes of one repository."""

    def __init__(self, checker: Checker, context: CheckContext, trees: ChangeTrees, prepare: str = "") -> None:
        """`prepare` is the command that prepares a checkout for the check; empty for none."""
        self._checker = checker
        self._context = context
        self._trees = trees
        self._prepare = prepare
        self._results: dict[str, CheckResult] = {}
        """By tree."""

    async def prove(
        self, change: ChangeUnderProof, ends: ChangeEnds, remarks: Sequence[Message], announce: Announce
    ) -> ProvenChange:
        """Run the check on the trees of a change, and judge it. The same tree is checked once."""
        work, base = [await asyncio.to_thread(self._trees.tree_of, commit) for commit in (ends.head, ends.base)]
        held, red = change.list_for_held_tree(), change.list_for_red_tree()
        held_tree = await asyncio.to_thread(self._trees.mix, work, base, held)
        red_tree = await asyncio.to_thread(self._trees.mix, base, work, red)

        async def run(name: str, tree: str) -> CheckResult:
            if tree not in self._results:
                announce(name)
                known = tree in {base, held_tree}
                before = self._results.get(base)
                self._results[tree] = await self._run(change, tree, base, before, judged=known)
            return self._results[tree]

        before = await run("base", base)
        after = await run("work", work)
        kept = await run("held", held_tree) if held_tree != work else None
        tested = await run("red", red_tree) if red_tree != base else None
        runs = CheckRuns(after, before, kept, tested)
        return ProvenChange(change_proof.judge_change(change, runs, remarks), runs)

    async def _run(
        self, change: ChangeUnderProof, tree: str, base: str, before: CheckResult | None, *, judged: bool
    ) -> CheckResult:
        """Run the check in a sealed checkout of a tree. `judged` says whether its tests are those of the base."""
        paths = await asyncio.to_thread(self._trees.list_paths, tree)
        held = sorted((path for path in paths if change.protection.covers(path)), key=test_runners.is_test)
        facts = CheckFacts(
            tree=tree,
            protected=tuple(held),
            standing=self._standing(change),
            judged=tuple(held) if judged else (),
            crossed=before.crossed if before is not None else None,
            base_source=suite_results.find_settled_source(before),
            before_work=tree == base,
            changed=tuple(file.path for file in change.files) if tree != base else (),
        )
        prepared = await self._make_prepared(tree, base)
        async with self._trees.checkouts.open_sealed(tree, prepared=prepared) as sealed:
            context = replace(
                self._context,
                readable=(*self._context.readable, *sealed.readonly),
                made=tuple(str(path.relative_to(sealed.path)) for path in sealed.made),
            )
            with SafeFolder.open(sealed.path) as folder:
                return await self._checker.check(change.check, folder, facts, context)

    def _standing(self, change: ChangeUnderProof) -> frozenset[str]:
        """Return files of the base that are named like test runners: the project may be one."""
        check = change.check
        named = check_results.list_shadowing_files(check)
        return frozenset(f"{check.cwd}/{path}" if check.cwd else path for path in named) & change.tree.files

    async def _make_prepared(self, tree: str, base: str) -> PreparedTree | None:
        """Run the preparation, once for trees with the same lock files."""
        if not self._prepare:
            return None
        recipe = PreparationRecipe(self._prepare, self._make_runner(), await self._checker.isolates(self._context))
        return await self._trees.checkouts.environments.prepare(tree, recipe, onto=base if tree != base else None)

    def _make_runner(self) -> Callable[..., Awaitable[PreparationRun]]:
        async def run(folder: object, command: str) -> PreparationRun:
            done = await self._checker.prepare(folder, command, self._context)  # type: ignore[arg-type]
            output = done.tail[-_LONGEST_OUTPUT:].strip()
            if done.ran.how == "finished" and done.ran.exit_code is not None:
                return PreparationRun(done.ran.exit_code, output)
            return PreparationRun(1, f"{output}\n{done.ran.error}".strip())

        return run
