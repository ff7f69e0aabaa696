"""Sentences about changes that are held against their base, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template

PLAN_CHECK_FOUND: Final = Template(
    "change.plan_check_found",
    "Found: {why}. Before the check runs, protected files are put back as they were.",
    "依据：{why}。检查运行之前，受保护的文件会恢复原状。",
)
PLAN_CHECK_OTHERS: Final = Template("change.plan_check_others", "Also found: {commands}", "还找到：{commands}")
PLAN_CHECK_NAMELESS: Final = Template(
    "change.plan_check_nameless",
    "No command that checks this repository was found, so a person is asked. Name one instead, such as:",
    "没有找到检查本仓库的命令，因此由人来判断。也可以写明一个命令，例如：",
)
PLAN_PROTECTED: Final = Template(
    "change.plan_protected",
    "The {count} files that the check consists of are protected, too.",
    "检查所依赖的 {count} 个文件也受保护。",
)
PLAN_PROMPT: Final = Template("change.plan_prompt", "Make this check pass: {run}", "使这项检查通过：{run}")
PLAN_PROMPT_NAMELESS: Final = Template(
    "change.plan_prompt_nameless",
    "Write tests for the most important behaviour of this repository, and say how they are run.",
    "为本仓库最重要的行为编写测试，并说明如何运行。",
)
PLAN_QUESTION: Final = Template(
    "change.plan_question",
    "Is the task of the prompt done? 'agenttalk diff {plan}/task' shows what was changed.",
    "提示中的任务完成了吗？用 'agenttalk diff {plan}/task' 查看改动。",
)
PLAN_AGENT: Final = Template(
    "change.plan_agent",
    "A coding agent that is installed here; 'agenttalk agent list' shows the others.",
    "本机已安装的编码智能体；用 'agenttalk agent list' 查看其他的。",
)
PLAN_AGENT_MISSING: Final = Template(
    "change.plan_agent_missing",
    "No coding agent was found here; 'agenttalk agent list' says how to install one.",
    "没有找到编码智能体；用 'agenttalk agent list' 查看如何安装。",
)
CHECK_BY_FILE: Final = Template(
    "change.check_by_file",
    "{path} belongs to {tool}",
    "{path} 属于 {tool}",
)
CHECK_BY_SCRIPT: Final = Template(
    "change.check_by_script",
    "{path} has a script {name!r}",
    "{path} 中有脚本 {name!r}",
)
CHECK_BY_TARGET: Final = Template(
    "change.check_by_target",
    "{path} has a target {name!r}",
    "{path} 中有目标 {name!r}",
)
CHECK_BY_STEP: Final = Template(
    "change.check_by_step",
    "a step of the workflow {path} runs it",
    "工作流 {path} 的一个步骤会运行它",
)
CHECK_NAMED: Final = Template(
    "change.check_named",
    "you named it",
    "由你指定",
)
TEST_SKIPPED: Final = Template(
    "change.test_skipped", "a test is skipped, or may fail: {line}", "有测试被跳过或允许失败：{line}"
)
TEST_ONLY: Final = Template(
    "change.test_only",
    "only one test runs, and the others do not: {line}",
    "只运行一个测试，其余不运行：{line}",
)
ASSERT_TRUE: Final = Template("change.assert_true", "an assertion that always holds: {line}", "永远成立的断言：{line}")
CHECK_SILENCED: Final = Template(
    "change.check_silenced",
    "a checker is switched off for this line: {line}",
    "此行关闭了检查工具：{line}",
)
EARLY_EXIT: Final = Template(
    "change.early_exit",
    "the program may end early with success: {line}",
    "程序可能提前以成功结束：{line}",
)
FAILURE_IGNORED: Final = Template(
    "change.failure_ignored", "a failure no longer counts: {line}", "失败不再算数：{line}"
)
JOB_DISABLED: Final = Template(
    "change.job_disabled",
    "a job of the workflow may not run: {line}",
    "工作流的某个作业可能不运行：{line}",
)
TESTS_DESELECTED: Final = Template("change.tests_deselected", "tests are left out: {line}", "有测试被排除：{line}")
REPORT_FORGED: Final = Template(
    "change.report_forged",
    "it names the report that only the test runner writes: {line}",
    "它提到了只应由测试运行器写入的报告：{line}",
)
RUNNER_TOUCHED: Final = Template(
    "change.runner_touched",
    "the program reaches into the test runner: {line}",
    "程序干预测试运行器：{line}",
)
ALWAYS_EQUAL: Final = Template(
    "change.always_equal",
    "a comparison that always holds: {line}",
    "永远成立的比较：{line}",
)
EXIT_HOOKED: Final = Template(
    "change.exit_hooked",
    "the program runs something when the process ends: {line}",
    "程序在进程结束时运行某些代码：{line}",
)
FRAME_READ: Final = Template(
    "change.frame_read", "the program looks into who calls it: {line}", "程序查看其调用者：{line}"
)
FRAME_SEARCHED: Final = Template(
    "change.frame_searched",
    "the program looks into the variables or objects of others: {line}",
    "程序查看其他代码的变量或对象：{line}",
)
LIBRARY_PATCHED: Final = Template(
    "change.library_patched", "the program replaces a part of a library: {line}", "程序替换了库的一部分：{line}"
)
MODULES_REPLACED: Final = Template(
    "change.modules_replaced", "the program changes how modules are found: {line}", "程序更改了模块的查找方式：{line}"
)
CODE_DECODED: Final = Template(
    "change.code_decoded", "the program runs unreadable code: {line}", "程序运行无法阅读的代码：{line}"
)
CODE_EXECUTED: Final = Template(
    "change.code_executed", "the program runs a text as code: {line}", "程序将文本作为代码运行：{line}"
)
PLACE_PROBED: Final = Template(
    "change.place_probed", "the program asks where or by whom it is run: {line}", "程序探查其运行的位置或运行者：{line}"
)
CLOCK_COMPARED: Final = Template(
    "change.clock_compared",
    "the program compares the time with a fixed one: {line}",
    "程序将当前时间与固定时间比较：{line}",
)
NETWORK_USED: Final = Template("change.network_used", "the program uses the network: {line}", "程序使用网络：{line}")
SNAPSHOT_CHANGED: Final = Template(
    "change.snapshot_changed",
    "{path} is a snapshot: what tests expect is what it says",
    "{path} 是快照：测试以其内容为预期",
)
BINARY_CODE: Final = Template("change.binary_code", "{path} is an unreadable program", "{path} 是无法阅读的程序")
ASK_SUSPICIOUS: Final = Template(
    "change.ask_suspicious",
    "The checks pass, but lines of the work could deceive them ({count}): {lines}. Is the work honest?",
    "检查已通过，但改动中有 {count} 处代码可能欺骗检查：{lines}。这项工作可信吗？",
)
MORE_SUSPICIOUS: Final = Template("change.more_suspicious", "and {count} more", "另有 {count} 处")
RULE_AT_LINE: Final = Template("change.rule_at_line", "{path} [{rule}]: {what}", "{path} [{rule}]：{what}")
NOTED_SUSPICIOUS: Final = Template("change.noted_suspicious", "suspicious: {lines}", "可疑：{lines}")
REFUSED_SUSPICIOUS: Final = Template(
    "change.refused_suspicious",
    "it passed, but the work has lines that could deceive it, which it does not permit: {lines}",
    "检查通过，但改动中有可能欺骗检查的代码，而检查不允许：{lines}",
)
UNREVIEWED_SUSPICIOUS: Final = Template(
    "change.unreviewed_suspicious",
    "it passed, but the work has lines that could deceive it, and no person approved them ({why}): {lines}",
    "检查通过，但改动中有可能欺骗检查的代码，且无人批准（{why}）：{lines}",
)
REVIEWED_SUSPICIOUS: Final = Template(
    "change.reviewed_suspicious", "{by} saw the suspicious lines: {lines}", "{by} 看过可疑代码：{lines}"
)
ASKS_SUSPICIONS: Final = Template(
    "change.asks_suspicions", "no line could deceive the check unseen", "没有未经查看而可能欺骗检查的代码"
)
DO_SUSPICIONS: Final = Template(
    "change.do_suspicions",
    "read the suspicious lines; if they are honest, repeat with --reviewed and the hash beside them",
    "阅读可疑代码；如果可信，请使用 --reviewed 和旁边的哈希重新运行",
)
SUSPICIONS_OPEN: Final = Template(
    "change.suspicions_open", "{lines}; to approve them: --reviewed {hash}", "{lines}；批准请用：--reviewed {hash}"
)
SUSPICIONS_REVIEWED: Final = Template(
    "change.suspicions_reviewed", "a person approved {hash}: {lines}", "有人批准了 {hash}：{lines}"
)
GHOST_TESTS: Final = Template(
    "change.ghost_tests",
    "the report names tests that are not there ({count}): {names}",
    "报告提到了不存在的测试（{count} 个）：{names}",
)
TESTS_READ: Final = Template("change.tests_read", "the program reads its tests: {line}", "程序读取测试：{line}")
PROCESS_PROBED: Final = Template(
    "change.process_probed",
    "the program looks at the processes around it: {line}",
    "程序查看周围的进程：{line}",
)
STATE_KEPT: Final = Template(
    "change.state_kept",
    "the program remembers how often it was called: {line}",
    "程序记住了被调用的次数：{line}",
)
ANSWERS_COPIED: Final = Template(
    "change.answers_copied",
    "what tests give and expect is written down: {line}",
    "测试的输入和预期结果被写入代码：{line}",
)
TEST_DETECTED: Final = Template(
    "change.test_detected",
    "the program behaves differently while it is tested: {line}",
    "程序在被测试时行为不同：{line}",
)
ASSERTION_CHANGED: Final = Template(
    "change.assertion_changed",
    "an assertion of the base is gone or changed: {line}",
    "基线中的断言被删除或修改：{line}",
)
TEST_REDEFINED: Final = Template(
    "change.test_redefined",
    "a test of the base is defined a second time: {line}",
    "基线中的测试被重复定义：{line}",
)
STEP_REMOVED: Final = Template(
    "change.step_removed", "a step that runs tests is gone: {line}", "运行测试的步骤被删除：{line}"
)
THRESHOLD_LOWERED: Final = Template(
    "change.threshold_lowered",
    "a threshold is lower than before: {line}",
    "阈值被降低：{line}",
)
READ_BY_RUNNER: Final = Template(
    "change.read_by_runner",
    "{path} is new, and test runners or interpreters read it by themselves",
    "{path} 是新文件，测试运行器或解释器会自动读取它",
)
TESTS_CONFIGURED: Final = Template(
    "change.tests_configured",
    "{path} decides how tests are run, and it changed",
    "{path} 决定测试如何运行，它被修改了",
)
TEST_FILE_REMOVED: Final = Template(
    "change.test_file_removed", "the test file {path} is gone", "测试文件 {path} 被删除"
)
WORKFLOW_REMOVED: Final = Template("change.workflow_removed", "the workflow {path} is gone", "工作流 {path} 被删除")
OBJECTIVE: Final = Template(
    "change.objective",
    "The change does what its tests ask for, and weakens no check",
    "此改动满足其测试的要求，且不削弱任何检查",
)
ASKS_CHECK: Final = Template("change.asks_check", "The check passes on the change as it is", "检查在改动上通过")
ASKS_BASE_TESTS: Final = Template(
    "change.asks_base_tests",
    "The check passes with the tests as they were at the base",
    "检查在使用基线测试时通过",
)
ASKS_TESTS_KEPT: Final = Template(
    "change.asks_tests_kept",
    "Every test of the base is still there, and still runs",
    "基线中的每个测试都还在并仍会运行",
)
ASKS_PROTECTED: Final = Template(
    "change.asks_protected",
    "The files that the check rests on are as they were",
    "检查所依赖的文件保持原样",
)
ASKS_SHOWN: Final = Template("change.asks_shown", "The check failed without the change", "没有此改动时检查失败")
ASKS_SCOPE: Final = Template("change.asks_scope", "Only files of the scope changed", "只修改了范围内的文件")
DO_CHECK: Final = Template(
    "change.do_check",
    "fix what fails; the end of the check's output is shown above",
    "修复失败之处；上面显示了检查输出的末尾",
)
DO_RUN: Final = Template(
    "change.do_run",
    "the check could not run: {why}; name another by --check, or give it what it needs by --link, --env or --prepare",
    "检查无法运行：{why}；请用 --check 指定其他检查，或用 --link、--env、--prepare 提供所需",
)
FILES_GONE: Final = Template(
    "change.files_gone",
    "test files of the base that are gone ({count}): {names}",
    "基线中消失的测试文件（{count} 个）：{names}",
)
DO_BASE_TESTS: Final = Template(
    "change.do_base_tests",
    "make the code pass the tests as they were; if a test was wrong, review its change and add --allow-tests",
    "让代码通过原来的测试；如果测试本身有误，请审查其改动并加上 --allow-tests",
)
DO_TESTS_KEPT: Final = Template(
    "change.do_tests_kept",
    "bring the tests back; if they are rightly gone, review that and add --allow-tests",
    "恢复这些测试；如果确应删除，请审查后加上 --allow-tests",
)
DO_PROTECTED: Final = Template(
    "change.do_protected",
    "undo the changes of these files; if they are right, review them and add --allow-tests",
    "撤销对这些文件的改动；如果改动正确，请审查后加上 --allow-tests",
)
DO_SHOWN: Final = Template(
    "change.do_shown",
    "add a test that fails without the change; if it changes no behaviour (refactoring), add --already-green ok",
    "添加一个没有此改动就会失败的测试；若是不改变行为的重构，请加上 --already-green ok",
)
DO_SCOPE: Final = Template(
    "change.do_scope",
    "undo the changes of other files, or name them by --scope",
    "撤销对其他文件的改动，或用 --scope 指明它们",
)
NO_BASE_TESTS: Final = Template(
    "change.no_base_tests",
    "the base has no test that this check could run: {why}",
    "基线没有此检查能运行的测试：{why}",
)
ONLY_EXTENDED: Final = Template(
    "change.only_extended",
    "tests got more lines or moved, and lost none: {names}",
    "测试只增加了行或被移动，没有丢失：{names}",
)
NONE_CHANGED: Final = Template("change.none_changed", "none of them changed", "均未改变")
PROTECTED_CHANGED: Final = Template("change.protected_changed", "{count} changed: {names}", "{count} 个被修改：{names}")
AT_LINE: Final = Template("change.at_line", "{path}:{line}: {what}", "{path}:{line}：{what}")
SHADOWING: Final = Template(
    "change.shadowing",
    "{path} would be taken for a module or a program that the check uses",
    "{path} 会被当作检查所用的模块或程序",
)
OUT_OF_SCOPE: Final = Template(
    "change.out_of_scope", "{count} outside the scope: {names}", "{count} 个超出范围：{names}"
)
IN_SCOPE: Final = Template("change.in_scope", "all changed files are in the scope", "所有被修改的文件都在范围内")
TESTS_KEPT: Final = Template(
    "change.tests_kept",
    "{count} ran, {new} of them new",
    "运行了 {count} 个测试，其中 {new} 个是新的",
)
TESTS_GONE: Final = Template(
    "change.tests_gone",
    "tests of the base that are gone ({count}): {names}",
    "基线中有 {count} 个测试消失：{names}",
)
TESTS_SKIPPED: Final = Template(
    "change.tests_skipped",
    "tests of the base that are skipped now ({count}): {names}",
    "基线中有 {count} 个测试现在被跳过：{names}",
)
FILE_MOVED: Final = Template(
    "change.file_moved",
    "{old} was moved to {new}, where the check cannot find its tests",
    "{old} 被移动到 {new}，检查在那里找不到其测试",
)
AS_ALLOWED: Final = Template("change.as_allowed", "permitted by --allow-tests", "--allow-tests 允许如此")
NO_TEST_REPORT: Final = Template(
    "change.no_test_report", "the check left no report about its tests", "检查没有留下测试报告"
)
NOT_COUNTED: Final = Template(
    "change.not_counted",
    "the check does not report which tests ran; only files were compared",
    "检查不说明运行了哪些测试；只比较了文件",
)
FEWER_TESTS: Final = Template(
    "change.fewer_tests",
    "{after} ran; {before} ran before",
    "运行了 {after} 个测试，之前运行了 {before} 个",
)
AS_MANY_TESTS: Final = Template(
    "change.as_many_tests",
    "{after} ran; {before} ran before",
    "运行了 {after} 个测试，之前运行了 {before} 个",
)
WAS_RED: Final = Template(
    "change.was_red",
    "without the change {count} did not pass: {names}",
    "没有此改动时有 {count} 个测试不通过：{names}",
)
WAS_RED_AS_A_WHOLE: Final = Template(
    "change.was_red_as_a_whole",
    "without the change the check ended with {code}",
    "没有此改动时检查以退出码 {code} 结束",
)
ONLY_DOCUMENTS: Final = Template(
    "change.only_documents",
    "only documentation changed, so no test has to show it",
    "只修改了文档，因此不需要测试来证明",
)
GREEN_AS_ALLOWED: Final = Template(
    "change.green_as_allowed",
    "the check passed before, too, as --already-green ok permits",
    "检查之前也通过，--already-green ok 允许如此",
)
NO_RUN_BEFORE: Final = Template(
    "change.no_run_before", "the check could not run at the base: {why}", "检查在基线无法运行：{why}"
)
RED_BEFORE_AND_AFTER: Final = Template(
    "change.red_before_and_after",
    "the check failed without the change, but no test that passes now failed then",
    "没有此改动时检查失败，但现在通过的测试当时并未失败",
)
NEW_TESTS_GREEN: Final = Template(
    "change.new_tests_green",
    "nothing shows the change: the new tests ({count}) pass without it, too: {names}",
    "没有任何东西证明此改动：{count} 个新测试在没有它时也通过：{names}",
)
NOTHING_SHOWS: Final = Template(
    "change.nothing_shows",
    "nothing shows the change: the check passed before it, and no test is new",
    "没有任何东西证明此改动：检查之前就通过，也没有新测试",
)
UNCHECKED_NEW_TESTS: Final = Template(
    "change.unchecked_new_tests",
    "whether the new tests ({count}) ask for the right thing: {names}",
    "{count} 个新测试是否提出了正确的要求：{names}",
)
UNCHECKED_TESTS: Final = Template(
    "change.unchecked_tests",
    "tests and configuration that changed ({count}), as --allow-tests permits: {names}",
    "按 --allow-tests 允许而改变的 {count} 个测试或其配置：{names}",
)
UNCHECKED_DOCUMENTS: Final = Template("change.unchecked_documents", "what the documentation says", "文档的内容")
UNCHECKED_EFFECT: Final = Template(
    "change.unchecked_effect",
    "what the change does: the check passes with it and without it",
    "此改动的作用：有无此改动检查都通过",
)
UNCHECKED_SINGLE_TESTS: Final = Template(
    "change.unchecked_single_tests",
    "which tests ran: the check reports none by name, so only its exit code counts",
    "运行了哪些测试：检查没有按名称报告，只有退出码",
)
UNCHECKED_SANDBOX: Final = Template(
    "change.unchecked_sandbox",
    "what else the check did: it did not run in a sandbox",
    "检查还做了什么：它没有在沙箱中运行",
)
UNCHECKED_FILES: Final = Template(
    "change.unchecked_files",
    "the lines of binary or very large files ({count}): {names}",
    "{count} 个二进制或很大的文件的各行：{names}",
)
UNCHECKED_MEANING: Final = Template(
    "change.unchecked_meaning",
    "whether this is what was asked for: no check reads a request",
    "这是否是所要求的：没有检查会阅读需求",
)
UNCHECKED_SUBMODULES: Final = Template(
    "change.unchecked_submodules",
    "submodules, whose files are not in a sealed checkout: {names}",
    "子模块，其文件不在密封的检出中：{names}",
)
UNCHECKED_LFS: Final = Template(
    "change.unchecked_lfs",
    "files of Git LFS, of which a sealed checkout has the pointers only",
    "Git LFS 的文件，密封的检出中只有其指针",
)
UNCHECKED_LINKS: Final = Template(
    "change.unchecked_links",
    "what git ignores and the check used from your folder, as it is there: {names}",
    "git 忽略而检查从你的文件夹原样使用的内容：{names}",
)
CHECK_OF_WORK: Final = Template(
    "change.check_of_work",
    "the check itself, which was found in the work: the base has none",
    "检查本身：它来自改动，基线中没有检查",
)
WORK_TREE_OF_ONE: Final = Template(
    "change.work_tree_of_one", "{name} and 1 uncommitted file", "{name} 和 1 个未提交的文件"
)
WORK_TREE: Final = Template(
    "change.work_tree", "{name} and {count} uncommitted files", "{name} 和 {count} 个未提交的文件"
)
TITLE_PROVEN: Final = Template("change.title_proven", "Proven: {what}", "已证明：{what}")
TITLE_NOT_PROVEN: Final = Template("change.title_not_proven", "Not proven: {what}", "未证明：{what}")
HEAD_WHY: Final = Template("change.head_why", "Why this is done", "为何已完成")
HEAD_WHY_NOT: Final = Template("change.head_why_not", "Why this is not done", "为何未完成")
HEAD_UNCHECKED: Final = Template("change.head_unchecked", "What was not checked", "未检查的内容")
HEAD_NOTES: Final = Template("change.head_notes", "Notes for the reviewer", "给审查者的提示")
HEAD_STEPS: Final = Template("change.head_steps", "What to do", "该做什么")
CHANGED_FILES: Final = Template(
    "change.changed_files",
    "files that changed since {base}: {count}",
    "自 {base} 以来修改了 {count} 个文件",
)
NO_REPOSITORY: Final = Template(
    "change.no_repository",
    "{folder} is in no work tree of a git repository",
    "{folder} 不在任何 git 仓库的工作区中",
)
NO_REPOSITORY_HINT: Final = Template(
    "change.no_repository_hint",
    "go to one, or make one: git init, git add, git commit",
    "请进入一个仓库，或新建一个：git init、git add、git commit",
)
NO_COMMIT: Final = Template("change.no_commit", "the repository {folder} has no commit yet", "仓库 {folder} 还没有提交")
NO_COMMIT_HINT: Final = Template(
    "change.no_commit_hint",
    "make a first commit: git add --all, git commit",
    "请先提交：git add --all、git commit",
)
