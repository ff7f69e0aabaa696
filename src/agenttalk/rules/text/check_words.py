"""The results of checks, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template

NOT_BY_ITSELF: Final = Template(
    "check.not_by_itself",
    "it did not exit by itself ({how})",
    "没有自行结束（{how}）",
)
ENDED_WITH: Final = Template(
    "check.ended_with",
    "it ended with {code}",
    "以退出码 {code} 结束",
)
NO_REPORT: Final = Template(
    "check.no_report",
    "there is no report at {path} (exit code {code})",
    "{path} 处没有报告（退出码 {code}）",
)
NO_CHANNEL: Final = Template(
    "check.no_channel",
    "no test runner reported to the engine (exit code {code}); name the path of its JUnit report as junit",
    "没有测试运行器向引擎报告（退出码 {code}）；请用 junit 指明其 JUnit 报告的路径",
)
CHANNEL_SILENT: Final = Template(
    "check.channel_silent",
    "the test runner reported nothing to the engine before it ended with {code}: something ended it before its first "
    "test, or the command does not let it load what the engine adds (PYTHONPATH); call the runner directly",
    "测试运行器在以退出码 {code} 结束之前没有向引擎报告任何内容：它在第一个测试之前就被结束，"
    "或者该命令不让它加载引擎添加的内容（PYTHONPATH）；请直接调用该运行器",
)
CHANNEL_CUT: Final = Template(
    "check.channel_cut",
    "the test runner was ended in the middle, with exit code {code}; let it run to its end: the code under test must "
    "not exit",
    "测试运行器在中途被结束，退出码 {code}；请让它运行到结束：被测代码不得退出进程",
)
CHANNEL_GARBLED: Final = Template(
    "check.channel_garbled",
    "what arrived from the test runner is not a report: {why}; nothing but the runner may write to the engine",
    "从测试运行器收到的内容不是报告：{why}；只有运行器可以向引擎写入",
)
TESTS_PENDING: Final = Template(
    "check.tests_pending",
    "these began and never ended: {names}",
    "这些测试开始后从未结束：{names}",
)
TESTS_UNRUN: Final = Template(
    "check.tests_unrun",
    "{count} collected tests did not run, although nothing failed: {names}",
    "没有任何失败，但有 {count} 个应运行的测试没有运行：{names}",
)
TESTS_HIDDEN: Final = Template(
    "check.tests_hidden",
    "these failed and were reported as passed afterwards: {names}; nothing may change what the runner reports",
    "这些测试失败后被改称通过：{names}；不得更改运行器报告的内容",
)
TESTS_SKIPPED_NOW: Final = Template(
    "check.tests_skipped_now",
    "skipped for another reason than at the baseline: {names} ({why})",
    "跳过的原因与基线不同：{names}（{why}）",
)
OTHER_CODE: Final = Template(
    "check.other_code",
    "the test runner was about to end with {said}, and ended with {code}",
    "测试运行器将以 {said} 结束，实际以 {code} 结束",
)
CANARIES_LOST: Final = Template(
    "check.canaries_lost",
    "the test runner does not tell right from wrong any more once the changed modules are loaded ({names}): a test "
    "that must fail passed, or one that must pass failed; leave Python, its assertions and the runner as they are",
    "加载被修改的模块（{names}）后，测试运行器不再能分辨对错：必须失败的测试通过了，或必须通过的测试失败了；"
    "工作成果不得改动 Python、断言和运行器",
)
CANARIES_HELD: Final = Template(
    "check.canaries_held",
    "canaries held",
    "探针测试结果正确",
)
CANARIES_UNABLE: Final = Template(
    "check.canaries_unable",
    "without canaries: they cannot run beside this suite",
    "没有探针测试：无法在此测试套件旁运行",
)
EXIT_CODE_ONLY: Final = Template(
    "check.exit_code_only",
    "exit-code only",
    "仅凭退出码",
)
FROM_OUTPUT: Final = Template(
    "check.from_output",
    "from the runner's output",
    "取自测试运行器的输出",
)
FROM_REPORT: Final = Template(
    "check.from_report",
    "from the runner's report file",
    "取自测试运行器的报告文件",
)
BAD_REPORT: Final = Template(
    "check.bad_report",
    "the report {path}: {why}",
    "报告 {path}：{why}",
)
THESE_FAILED: Final = Template(
    "check.these_failed",
    "{count} failed: {names}",
    "{count} 个测试失败：{names}",
)
FAILURES_BEYOND: Final = Template(
    "check.failures_beyond",
    "the report counts failures that no test shows",
    "报告提到了没有任何测试显示的失败",
)
NO_TEST_RAN: Final = Template(
    "check.no_test_ran",
    "no test ran",
    "没有运行任何测试",
)
TOO_FEW_TESTS: Final = Template(
    "check.too_few_tests",
    "{count} tests ran; at least {least} are required",
    "只运行了 {count} 个测试，至少需要 {least} 个",
)
TESTS_GONE: Final = Template(
    "check.tests_gone",
    "{count} tests of the baseline are gone: {names} (a plan permits that by may_vanish)",
    "基线中有 {count} 个测试消失：{names}（计划可用 may_vanish 允许）",
)
GONE_AS_PERMITTED: Final = Template(
    "check.gone_as_permitted",
    "gone, as the plan permits: {names}",
    "计划允许消失：{names}",
)
TESTS_SPARED: Final = Template(
    "check.tests_spared",
    "{count} that ran at the baseline are skipped: {names}",
    "基线时运行过的 {count} 个测试被跳过：{names}",
)
COUNT_PASSED: Final = Template(
    "check.count_passed",
    "{count} passed",
    "{count} 个通过",
)
COUNT_FAILED: Final = Template(
    "check.count_failed",
    "{count} failed",
    "{count} 个失败",
)
COUNT_SKIPPED: Final = Template(
    "check.count_skipped",
    "{count} skipped",
    "{count} 个跳过",
)
COUNT_REPEATED: Final = Template(
    "check.count_repeated",
    "{count} listed more than once",
    "{count} 个重复列出",
)
TOO_SMALL: Final = Template(
    "check.too_small",
    "it has {size} bytes; at least {least} are required",
    "只有 {size} 字节，至少需要 {least} 字节",
)
OTHER_HASH: Final = Template(
    "check.other_hash",
    "its hash is {found}, not {asked}",
    "哈希值是 {found}，而不是 {asked}",
)
HOLDS_NOT: Final = Template(
    "check.holds_not",
    "it does not contain {text!r}",
    "不包含 {text!r}",
)
LACKS: Final = Template(
    "check.lacks",
    "it lacks {name!r}",
    "缺少 {name!r}",
)
NO_REPOSITORY: Final = Template(
    "check.no_repository",
    "there is no repository to check",
    "没有可以检查的仓库",
)
NONE_CHANGED: Final = Template(
    "check.none_changed",
    "nothing that matches {glob!r} was changed",
    "没有修改任何匹配 {glob!r} 的内容",
)
PROTECTED_CHANGED: Final = Template(
    "check.protected_changed",
    "protected paths were changed: {names}",
    "修改了受保护的路径：{names}",
)
OTHER_STATUS: Final = Template(
    "check.other_status",
    "the status is {found}, not {asked}",
    "状态码是 {found}，而不是 {asked}",
)
NOT_STORED: Final = Template(
    "check.not_stored",
    "the output {name!r} is not stored",
    "输出 {name!r} 没有保存",
)
OTHER_CONTENT: Final = Template(
    "check.other_content",
    "the output {name!r} is {found}, not {declared}",
    "输出 {name!r} 是 {found}，而不是 {declared}",
)
OWN_WORK: Final = Template(
    "check.own_work",
    "{who!r} made {name!r} and cannot accept it",
    "{who!r} 制作了 {name!r}，不能由自己验收",
)
NO_OWN_REPORT: Final = Template(
    "check.no_own_report",
    "the agent has submitted no report",
    "智能体没有提交任何报告",
)
NOBODY_ANSWERED: Final = Template(
    "check.nobody_answered",
    "the question is not answered yet",
    "还没有人答复",
)
UNKNOWN_ANSWERED: Final = Template(
    "check.unknown_answered",
    "it is not known who answered",
    "不知道是谁答复的",
)
SAID_NO: Final = Template(
    "check.said_no",
    "{by} said no",
    "{by} 不同意",
)
SAW_OTHER: Final = Template(
    "check.saw_other",
    "{by} saw another version than the one that exists now",
    "{by} 看到的与现在的内容不同",
)
CONFIRMED_BY: Final = Template(
    "check.confirmed_by",
    "confirmed by {by}",
    "由 {by} 确认",
)
ATTESTED_BY: Final = Template(
    "check.attested_by",
    "attested by {by}, not isolated: an agent that nothing confines could have said it",
    "由 {by} 声明，未隔离：未受限的智能体也可能作出该回答",
)
WEAK: Final = Template(
    "check.weak",
    "weak: it was not shown to fail before the work began",
    "证据薄弱：没有看到它在工作开始前失败",
)
NOT_ISOLATED: Final = Template(
    "check.not_isolated",
    "not isolated",
    "没有隔离运行",
)
NOT_XML: Final = Template(
    "check.not_xml",
    "it is not XML: {error}",
    "不是 XML：{error}",
)
UNREADABLE: Final = Template(
    "check.unreadable",
    "it cannot be read: {error}",
    "无法读取：{error}",
)
HAS_DOCTYPE: Final = Template(
    "check.has_doctype",
    "it has a DOCTYPE, which a report does not need",
    "含有 DOCTYPE，报告不需要它",
)
NO_SUITE: Final = Template(
    "check.no_suite",
    "it begins with <{name}>, not with <testsuites> or <testsuite>",
    "以 <{name}> 开头，而不是 <testsuites> 或 <testsuite>",
)
TOO_DEEP: Final = Template(
    "check.too_deep",
    "it is nested deeper than {depth} levels",
    "嵌套超过 {depth} 层",
)
NAMELESS_TEST: Final = Template(
    "check.nameless_test",
    "it has a test without a name",
    "有一个没有名称的测试",
)
ODD_COUNT: Final = Template(
    "check.odd_count",
    "a number of failures is {text!r}",
    "失败数是 {text!r}",
)
OTHER_BEGINNING: Final = Template(
    "check.other_beginning",
    "{what}does not begin like {kind}",
    "{what}的开头不像 {kind}",
)
NOT_JSON: Final = Template(
    "check.not_json",
    "{what}is not JSON: {error}",
    "{what}不是 JSON：{error}",
)
NOT_UTF8: Final = Template(
    "check.not_utf8",
    "{what}is not text in UTF-8: byte {at} is wrong",
    "{what}不是 UTF-8 文本：第 {at} 字节有误",
)
ZERO_BYTE: Final = Template(
    "check.zero_byte",
    "{what}contains a zero byte, so it is not text",
    "{what}含有零字节，文本中不会有",
)
NO_ADDRESS: Final = Template(
    "check.no_address",
    "{address!r} is not an address",
    "{address!r} 不是地址",
)
METADATA_ADDRESS: Final = Template(
    "check.metadata_address",
    "{address} is where clouds hand out credentials",
    "{address} 是云平台发放凭据的地址",
)
NOT_PUBLIC: Final = Template(
    "check.not_public",
    "{address} is not a public address",
    "{address} 不是公网地址",
)
NOT_ANSWERED: Final = Template(
    "check.not_answered",
    "{url} has not answered within {seconds:g} seconds",
    "{url} 在 {seconds:g} 秒内没有应答",
)
TOO_MANY_HOPS: Final = Template(
    "check.too_many_hops",
    "{url} is one redirect too many",
    "{url}：重定向次数过多",
)
BAD_ADDRESS: Final = Template(
    "check.bad_address",
    "{url!r} is not an address: {error}",
    "{url!r} 不是地址：{error}",
)
NOT_HTTP: Final = Template(
    "check.not_http",
    "{url!r} is not http or https",
    "{url!r} 不是 http 或 https",
)
ADDRESS_WITH_NAME: Final = Template(
    "check.address_with_name",
    "an address must not contain a user name or a password",
    "地址中不得含有用户名或密码",
)
HOST_NOT_FOUND: Final = Template(
    "check.host_not_found",
    "{host!r} is not found: {error}",
    "找不到 {host!r}：{error}",
)
CHECK_BROKE: Final = Template(
    "check.check_broke",
    "the check broke: {kind}: {error}",
    "检查本身出错：{kind}: {error}",
)
NO_FORGE: Final = Template(
    "check.no_forge",
    "no forge is configured here",
    "这里没有配置代码平台",
)
NO_CHECKOUT: Final = Template(
    "check.no_checkout",
    "there is no checkout to check",
    "没有可以检查的检出",
)
SETTINGS_CHANGED: Final = Template(
    "check.settings_changed",
    "its test settings were changed; put them back: {names}",
    "测试配置被修改，请改回：{names}",
)
SCHEMA_FAILED: Final = Template(
    "check.schema_failed",
    "{path} could not be judged by its schema: {error}",
    "无法按 schema 检查 {path}：{error}",
)
UNKNOWN_KIND: Final = Template(
    "check.unknown_kind",
    "no part of this engine runs checks of kind {kind!r}",
    "这里无法执行类型为 {kind!r} 的检查",
)
OWN_FILE: Final = Template(
    "check.own_file",
    "the check's own file {path}: {why}",
    "检查自带的文件 {path}：{why}",
)
OWN_FILE_CHANGED: Final = Template(
    "check.own_file_changed",
    "the check's own file {path} is {found}, not {said}",
    "检查自带的文件 {path} 是 {found}，而不是 {said}",
)
SHADOWS_RUNNER: Final = Template(
    "check.shadows_runner",
    "{path} would run instead of the test runner",
    "{path} 会冒充测试程序运行",
)
SHADOWS_MODULE: Final = Template(
    "check.shadows_module",
    "{path}: it would pass for a module of Python, the test runner or another program when checks run; "
    "name it otherwise",
    "{path}：运行检查时它会被当作 Python 自带模块、测试程序或其他程序；请改用其他名称",
)
NO_SANDBOX: Final = Template(
    "check.no_sandbox",
    "a sandbox is required here: {error}",
    "这里要求使用沙箱：{error}",
)
SANDBOX_SWITCHED_OFF: Final = Template(
    "check.sandbox_switched_off",
    "install bubblewrap (make sandbox), and set checks.sandbox to best",
    "请安装 bubblewrap（make sandbox），并把 checks.sandbox 设为 best",
)
WEAKER_THAN_AGENT: Final = Template(
    "check.weaker_than_agent",
    "the best that works is {tier}, and the work was made in {least}; install bubblewrap (make sandbox)",
    "可用的最好沙箱是 {tier}，而这项工作是在 {least} 中完成的；请安装 bubblewrap（make sandbox）",
)
PLANTED: Final = Template(
    "check.planted",
    "workspace.prepare, as the work changed it, makes what is protected: {names}; let it make only what is installed",
    "经工作修改后的 workspace.prepare 生成了受保护的内容：{names}；请只让它生成要安装的内容",
)
TAMPERED: Final = Template(
    "check.tampered",
    "while it ran, something changed files that decide its result: {names}",
    "在它运行期间，决定其结果的内容被更改：{names}",
)
NUL_IN_COMMAND: Final = Template(
    "check.nul_in_command",
    "the command contains a NUL character",
    "命令中含有 NUL",
)
PRINTED_NOTHING: Final = Template(
    "check.printed_nothing",
    "it printed nothing",
    "没有任何输出",
)
NO_PROGRAM: Final = Template(
    "check.no_program",
    "a program was not found or cannot be started (exit code {code})",
    "程序不存在或无法启动（退出码 {code}）",
)
NO_MODULE: Final = Template(
    "check.no_module",
    "Python cannot find the module {name!r}",
    "Python 找不到要运行的模块 {name!r}",
)
NO_SCRIPT: Final = Template(
    "check.no_script",
    "the file or target to run does not exist (exit code {code})",
    "要运行的内容不存在（退出码 {code}）",
)
NOTHING_COLLECTED: Final = Template(
    "check.nothing_collected",
    "no test was found (exit code {code})",
    "没有找到任何测试（退出码 {code}）",
)
PYTEST_INTERRUPTED: Final = Template(
    "check.pytest_interrupted",
    "pytest could not load the tests (exit code {code})",
    "pytest 无法加载测试（退出码 {code}）",
)
PYTEST_USAGE: Final = Template(
    "check.pytest_usage",
    "pytest was called with wrong arguments, or a path does not exist (exit code {code})",
    "pytest 的调用方式有误，或某个路径不存在（退出码 {code}）",
)
CANNOT_RUN_BEFORE: Final = Template(
    "check.cannot_run_before",
    "the check {id!r} cannot run before the work: {why}",
    "检查 {id!r} 在工作开始前无法运行：{why}",
)
GREEN_BEFORE: Final = Template(
    "check.green_before",
    "the check {id!r} must fail before the work, and did not",
    "检查 {id!r} 必须在工作开始前失败，但它没有失败",
)
GREEN_HINT: Final = Template(
    "check.green_hint",
    "the work is done already, or the check does not test it",
    "工作已经完成，或者该检查没有检验它",
)
CANNOT_RUN_HINT: Final = Template(
    "check.cannot_run_hint",
    "{what}; have workspace.prepare install what is missing (or workspace.link lend it), correct the command, or write "
    "made_by_work: true if the work makes it. {run!r} printed: {said}",
    "{what}；请用 workspace.prepare 安装缺少的内容（或用 workspace.link 引入），更正命令，"
    "或者如果由工作来创建它，请写 made_by_work: true。{run!r} 的输出：{said}",
)
PRINTED_TOO_MUCH: Final = Template(
    "check.printed_too_much",
    "it printed more than {limit:,} bytes",
    "输出超过 {limit:,} 字节",
)
CANNOT: Final = Template(
    "check.cannot",
    "cannot {verb} {path!r}: {error}",
    "无法 {verb} {path!r}：{error}",
)
REFUSED: Final = Template(
    "check.refused",
    "{path!r} is refused: {why}",
    "拒绝 {path!r}：{why}",
)
TOO_LARGE: Final = Template(
    "check.too_large",
    "it is larger than {limit:,} bytes",
    "超过 {limit:,} 字节",
)
CHANGED_ON_BRANCH: Final = Template(
    "check.changed_on_branch",
    "{path}: a commit that no task made changed it on the plan's branch, and it is protected",
    "{path}：计划分支上一个不是由任务做出的提交修改了它，而它受保护",
)
OTHER_THAN_IN_TREE: Final = Template(
    "check.other_than_in_tree",
    "{path}: the output is not the file of that name in the tree",
    "{path}：输出与工作树中的同名文件不同",
)
NOT_GIVEN: Final = Template(
    "check.not_given",
    "its content is neither in what was handed in nor in the base",
    "其内容既不在提交的数据中，也不在基准中",
)
TOO_NESTED: Final = Template(
    "check.too_nested",
    "it is nested deeper than {depth} folders",
    "嵌套超过 {depth} 层文件夹",
)
MISTAKEN_FOR: Final = Template(
    "check.mistaken_for",
    "some systems would take it for {name!r}",
    "有些系统会把它当作 {name!r}",
)
IS_SUBMODULE: Final = Template(
    "check.is_submodule",
    "it is a submodule, whose content belongs to another repository",
    "它是子模块，内容属于另一个仓库",
)
TOO_MANY_FILES: Final = Template(
    "check.too_many_files",
    "the tree has more than {limit:,} files",
    "工作树的文件超过 {limit:,} 个",
)
NO_PLAIN_FILE: Final = Template(
    "check.no_plain_file",
    "it is a FIFO, a socket or a device",
    "它是管道、套接字或设备",
)
CHANGED_WHILE_READ: Final = Template(
    "check.changed_while_read",
    "it changed while it was read",
    "读取时它发生了变化",
)
TOO_MUCH_NEW: Final = Template(
    "check.too_much_new",
    "the new files together have more than {limit:,} bytes",
    "新增内容总计超过 {limit:,} 字节",
)
LINKED_OUTSIDE: Final = Template(
    "check.linked_outside",
    "the file has another name (a hard link) outside the tree",
    "该文件在工作树之外还有另一个名称",
)
NO_SUBMODULES: Final = Template(
    "check.no_submodules",
    "submodules cannot be added or changed",
    "不能添加或修改子模块",
)
NAME_NOT_UTF8: Final = Template(
    "check.name_not_utf8",
    "its name is not UTF-8",
    "名称不是 UTF-8",
)
PATH_TOO_LONG: Final = Template(
    "check.path_too_long",
    "its path is longer than {limit} bytes",
    "路径超过 {limit} 字节",
)
BARE_GIT: Final = Template(
    "check.bare_git",
    "with HEAD, objects and refs in it git would take this folder for a repository, and run what its config says; "
    "rename one of them",
    "git 会把含有 HEAD、objects 和 refs 的文件夹当作仓库，并执行其配置中的命令；请将其中之一改名",
)
INNER_GIT: Final = Template(
    "check.inner_git",
    "a .git inside the tree would make it another repository",
    "工作树内的 .git 会使它成为另一个仓库",
)
CIRCLE: Final = Template(
    "check.circle",
    "it is a symlink that leads in a circle",
    "它是循环的符号链接",
)
INTO_GIT: Final = Template(
    "check.into_git",
    "it is a symlink into the repository's own folder",
    "它是指向仓库自身文件夹的符号链接",
)
REPORT_SHOWS: Final = Template(
    "check.report_shows",
    "the runner ended with {code}, and the report shows failures",
    "测试程序以 {code} 结束，而报告显示有失败",
)
REPORT_SHOWS_NONE: Final = Template(
    "check.report_shows_none",
    "the runner ended with {code}, and the report shows none",
    "测试程序以 {code} 结束，而报告没有显示失败",
)
ANSWER_HOLDS_NOT: Final = Template(
    "check.answer_holds_not",
    "the answer does not contain {text!r}",
    "应答中不包含 {text!r}",
)
PART_HOLDS_NOT: Final = Template(
    "check.part_holds_not",
    "what could be read of the answer does not contain {text!r}",
    "能读到的应答中不包含 {text!r}",
)
ACCEPTED_OTHER: Final = Template(
    "check.accepted_other",
    "{who!r} has accepted something else as {name!r}",
    "{who!r} 验收的 {name!r} 是另一个版本",
)
ACCEPTED_NONE: Final = Template(
    "check.accepted_none",
    "{who!r} has accepted nothing as {name!r}",
    "{who!r} 还没有验收 {name!r}",
)
FLAKY: Final = Template(
    "check.flaky",
    "flaky: {names}",
    "时好时坏：{names}",
)
HAS_NO_ADDRESS: Final = Template(
    "check.has_no_address",
    "it has no address",
    "它没有地址",
)
BOUNDARY_OTHER_RUNNER: Final = Template(
    "check.boundary_other_runner",
    "only a plain call of pytest or unittest can be judged in another process, and this is not one: {run}",
    "只有对 pytest 或 unittest 的直接调用才能在另一个进程中判定，而这不是：{run}",
)
BOUNDARY_NO_TESTS: Final = Template(
    "check.boundary_no_tests",
    "no test is protected from the work, so none can be judged in another process",
    "没有受保护的测试，因此无法在另一个进程中判定",
)
BOUNDARY_NO_SANDBOX: Final = Template(
    "check.boundary_no_sandbox",
    "to judge tests in another process, bubblewrap is needed (make sandbox, or apt-get install bubblewrap)",
    "在另一个进程中判定测试需要 bubblewrap（make sandbox，或 apt-get install bubblewrap）",
)
BOUNDARY_SILENT: Final = Template(
    "check.boundary_silent",
    "the process that judges the tests did not report any",
    "判定测试的进程没有报告任何测试",
)
BOUNDARY_WORKER_ENDED: Final = Template(
    "check.boundary_worker_ended",
    "the process that runs the work has ended: {why}",
    "运行成果的进程已结束：{why}",
)
BOUNDARY_FAILED: Final = Template(
    "check.boundary_failed",
    "{count} tests did not pass with the work in another process: {names}",
    "当成果在另一个进程中运行时，{count} 个测试没有通过：{names}",
)
BOUNDARY_FAILED_WHY: Final = Template(
    "check.boundary_failed_why",
    "{count} tests did not pass with the work in another process: {names} ({why})",
    "当成果在另一个进程中运行时，{count} 个测试没有通过：{names}（{why}）",
)
BOUNDARY_COUNT: Final = Template(
    "check.boundary_count",
    "{count} of {total} tests were judged in another process than the work",
    "{total} 个测试中有 {count} 个在与成果不同的进程中判定",
)
BOUNDARY_TOO_MANY: Final = Template(
    "check.boundary_too_many",
    "tests in {count} places cannot be hidden from the work",
    "无法对成果隐藏 {count} 处的测试",
)
BOUNDARY_LINK: Final = Template(
    "check.boundary_link",
    "{path} lies behind a link, so it cannot be hidden from the work",
    "{path} 位于链接之后，无法对成果隐藏",
)
MUTANTS_OF_FAILED: Final = Template(
    "check.mutants_of_failed",
    "the check {of!r}, which has to notice the faults, did not pass without one",
    "应发现错误的检查 {of!r} 在没有错误时未通过",
)
NO_MUTANTS: Final = Template(
    "check.no_mutants",
    "the work changed no line of Python in which a fault could be put, so this shows nothing",
    "改动中没有可以植入错误的 Python 代码行，因此不能说明任何问题",
)
MUTANTS_UNSTEADY: Final = Template(
    "check.mutants_unsteady",
    "the check {of!r} also fails when the text of the code changes and its behaviour does not; name one of tests alone",
    "只改变代码文本而不改变其行为时，检查 {of!r} 也失败；请指定只运行测试的检查",
)
MUTANTS_SLOW: Final = Template(
    "check.mutants_slow",
    "only {tried} of {chosen} mutants could be tried in the time; give more time (timeout) or a quicker check",
    "在限定时间内只试验了 {chosen} 个变异中的 {tried} 个；请延长时间（timeout）或使用更快的检查",
)
MUTANTS_NOTICED: Final = Template(
    "check.mutants_noticed",
    "{of!r} noticed {noticed} of {tried} mutants ({chosen} chosen)",
    "{of!r} 发现了 {tried} 个变异中的 {noticed} 个（选定 {chosen} 个）",
)
DIFFERS: Final = Template(
    "check.differs",
    "flaky or environment-dependent: {what} ended differently in a second run, at another place and in another order",
    "不稳定或依赖环境：在另一位置以另一顺序再次运行时，{what} 的结果不同",
)
THE_CHECK: Final = Template("check.the_check", "the check", "检查")
NO_SECOND_CHECKOUT: Final = Template(
    "check.no_second_checkout",
    "twice: there is no second checkout to run it in",
    "twice：没有可用于第二次运行的检出",
)
SURVIVORS: Final = Template("check.survivors", "not noticed: {names}", "未发现：{names}")
MUTANTS_ASKED: Final = Template("check.mutants_asked", "at least {share} % are asked for", "要求至少 {share} %")
SERVICE_NEEDS_NETWORK: Final = Template(
    "check.service_needs_network",
    "a service needs a network of its own, which only bubblewrap gives; install it (apt-get install bubblewrap)",
    "服务需要自己的网络，只有 bubblewrap 能提供；请安装它（apt-get install bubblewrap）",
)
SERVICE_NEVER_UP: Final = Template(
    "check.service_never_up",
    "the service opened no connection at its port in time; it has to listen on 127.0.0.1 at $PORT",
    "服务没有及时在其端口上监听；它必须在 127.0.0.1 的 $PORT 上监听",
)
SERVICE_ENDED_WITH: Final = Template(
    "check.service_ended_with",
    "the service ended by itself with {code}",
    "服务自行结束，退出码 {code}",
)
SERVICE_ENDED: Final = Template(
    "check.service_ended",
    "the service is not there any more",
    "服务已经不在了",
)
SERVICE_NOT_READY: Final = Template(
    "check.service_not_ready",
    "the service did not answer {path} with a status below 400 in time",
    "服务没有及时以低于 400 的状态回应 {path}",
)
NO_REQUEST: Final = Template(
    "check.no_request",
    "the check sends no request",
    "该检查没有发送任何请求",
)
OTHER_ANSWER: Final = Template(
    "check.other_answer",
    "the answer is {found}, and {asked} is asked for",
    "回答是 {found}，而要求的是 {asked}",
)
NO_BROWSER: Final = Template(
    "check.no_browser",
    "there is no browser here; install Chromium, and AgentTalk with the extra browser",
    "这里没有浏览器；请安装 Chromium，并安装带 browser 附加项的 AgentTalk",
)
BROWSER_FAILED: Final = Template(
    "check.browser_failed",
    "the browser could not be used: {error}",
    "无法使用浏览器：{error}",
)
STEP_FAILED: Final = Template(
    "check.step_failed",
    "the step '{step}' did not succeed; found: {found}",
    "步骤“{step}”没有成功；看到的是：{found}",
)
STEPS_MISSING: Final = Template(
    "check.steps_missing",
    "not every step of the check was taken",
    "并非检查的每一步都执行了",
)
PAGE_ERRORS: Final = Template(
    "check.page_errors",
    "scripts of the page failed: {errors}",
    "页面的脚本出错：{errors}",
)
HIDDEN_CHECK: Final = Template(
    "check.hidden_check",
    "it is hidden from the agent; people see what it found",
    "此检查对智能体隐藏；人可以看到其结果",
)
HIDDEN_COUNT: Final = Template(
    "check.hidden_count",
    "it is hidden from the agent: {passed} tests passed, {failed} failed",
    "此检查对智能体隐藏：{passed} 个测试通过，{failed} 个失败",
)
HIDDEN_IN_TREE: Final = Template(
    "check.hidden_in_tree",
    "{path} of the hidden check {id!r} is in the repository, where the agent sees it",
    "隐藏检查 {id!r} 的文件 {path} 在仓库中，智能体可以看到",
)
HIDDEN_NEEDS_SANDBOX: Final = Template(
    "check.hidden_needs_sandbox",
    "the task has hidden checks, and its agent runs without a sandbox, where it could read them",
    "任务有隐藏检查，而其智能体不在沙箱中运行，可以读取它们",
)
NO_CASE: Final = Template(
    "check.no_case",
    "the check has no case",
    "该检查没有任何用例",
)
CASES_PASSED: Final = Template(
    "check.cases_passed",
    "{count} cases passed",
    "{count} 个用例通过",
)
CASES_FAILED: Final = Template(
    "check.cases_failed",
    "{count} of {total} cases failed",
    "{total} 个用例中有 {count} 个失败",
)
CASE_UNANSWERED: Final = Template(
    "check.case_unanswered",
    "it was not tried",
    "未执行",
)
CASE_RETURNED: Final = Template(
    "check.case_returned",
    "it returned {found}, and {asked} is asked for",
    "返回了 {found}，而要求的是 {asked}",
)
CASE_RAISED: Final = Template(
    "check.case_raised",
    "it raised {name}, and {asked} is asked for",
    "引发了 {name}，而要求的是 {asked}",
)
CASE_ENDED: Final = Template(
    "check.case_ended",
    "it ended with {code}, and {asked} is asked for",
    "以 {code} 结束，而要求的是 {asked}",
)
CASE_PRINTED: Final = Template(
    "check.case_printed",
    "it printed {found}, and {asked} is asked for",
    "输出了 {found}，而要求的是 {asked}",
)
CASE_WROTE: Final = Template(
    "check.case_wrote",
    "{path} contains {found}, and {asked} is asked for",
    "{path} 的内容是 {found}，而要求的是 {asked}",
)
CASE_WROTE_NOT: Final = Template(
    "check.case_wrote_not",
    "it did not write {path}",
    "没有写入 {path}",
)
CASE_LATE: Final = Template(
    "check.case_late",
    "it took longer than a case may",
    "超过了单个用例的时限",
)
CASE_LARGE: Final = Template(
    "check.case_large",
    "it printed or returned more than 1 MiB",
    "输出或返回的内容超过 1 MiB",
)
CASE_DIED: Final = Template(
    "check.case_died",
    "its process ended with {code} before there was a result",
    "进程在得出结果之前以 {code} 结束",
)
CASE_UNLOADED: Final = Template(
    "check.case_unloaded",
    "the function cannot be loaded: {why}",
    "无法加载该函数：{why}",
)
SEALED: Final = Template(
    "check.sealed",
    "made by the verifier {name} on the machine {machine} ({tier}), signed with the key {key}",
    "由验证机 {name} 在机器 {machine}（{tier}）上检查，用密钥 {key} 签名",
)
VERIFIER_CONTRADICTS: Final = Template(
    "check.verifier_contradicts",
    "the verifier says that it passed, and reports what contradicts that: {what}",
    "验证机称已通过，但它报告的内容与此矛盾：{what}",
)
VERIFIERS_DIFFER: Final = Template(
    "check.verifiers_differ",
    "two verifiers disagree, so nothing is shown: {told}; the check does not always end alike, or one of them lies",
    "两台验证机的结果不一致，因此什么也没有证明：{told}；该检查时好时坏，或其中一台在说谎",
)
VERIFIER_PASSED: Final = Template(
    "check.verifier_passed", "{verifier} saw it pass ({why})", "{verifier} 看到它通过（{why}）"
)
VERIFIER_FAILED: Final = Template(
    "check.verifier_failed", "{verifier} saw it fail ({why})", "{verifier} 看到它失败（{why}）"
)
ASK_VERIFIERS: Final = Template(
    "check.ask_verifiers",
    "{id}: {told}. Shall it be checked again? Without that the check has failed.",
    "{id}：{told}。要再检查一次吗？否则该检查视为失败。",
)
NOT_CHECKED_AGAIN: Final = Template(
    "check.not_checked_again",
    "two verifiers disagreed, and a person did not want it to be checked again",
    "两台验证机的结果不一致，且有人决定不再检查",
)
NO_VERIFICATION: Final = Template(
    "check.no_verification",
    "no verifier could make it: {why}",
    "没有验证机能做这项检查：{why}",
)
NOT_FOR_VERIFIERS: Final = Template(
    "check.not_for_verifiers",
    "it needs what is on the engine's machine alone ({what}), so no verifier can make it",
    "它需要只存在于引擎所在机器上的内容（{what}），因此没有验证机能做",
)
