"""What checks say of what they found, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import MessageTemplate

NOT_BY_ITSELF: Final = MessageTemplate(
    "it did not end by itself ({how})",
    "没有自行结束（{how}）",
)
ENDED_WITH: Final = MessageTemplate(
    "it ended with {code}",
    "以退出码 {code} 结束",
)
NO_REPORT: Final = MessageTemplate(
    "there is no report at {path} (exit code {code})",
    "{path} 处没有报告（退出码 {code}）",
)
BAD_REPORT: Final = MessageTemplate(
    "the report {path}: {why}",
    "报告 {path}：{why}",
)
THESE_FAILED: Final = MessageTemplate(
    "{count:d} failed: {names}",
    "{count} 个测试失败：{names}",
)
FAILURES_BEYOND: Final = MessageTemplate(
    "the report tells of failures that no test shows",
    "报告提到了没有任何测试显示的失败",
)
NO_TEST_RAN: Final = MessageTemplate(
    "no test ran",
    "没有运行任何测试",
)
TOO_FEW_TESTS: Final = MessageTemplate(
    "{count:d} tests ran, and {least} are the least",
    "只运行了 {count} 个测试，至少需要 {least} 个",
)
TESTS_GONE: Final = MessageTemplate(
    "{count:d} of the baseline are gone: {names} (a plan permits that by may_vanish)",
    "基线中有 {count} 个测试消失：{names}（计划可用 may_vanish 允许）",
)
GONE_AS_PERMITTED: Final = MessageTemplate(
    "gone, as the plan permits: {names}",
    "计划允许消失：{names}",
)
TESTS_SPARED: Final = MessageTemplate(
    "{count:d} that ran at the baseline are skipped: {names}",
    "基线时运行过的 {count} 个测试被跳过：{names}",
)
COUNT_PASSED: Final = MessageTemplate(
    "{count:d} passed",
    "{count} 个通过",
)
COUNT_FAILED: Final = MessageTemplate(
    "{count:d} failed",
    "{count} 个失败",
)
COUNT_SKIPPED: Final = MessageTemplate(
    "{count:d} skipped",
    "{count} 个跳过",
)
COUNT_REPEATED: Final = MessageTemplate(
    "{count:d} listed more than once",
    "{count} 个重复列出",
)
TOO_SMALL: Final = MessageTemplate(
    "it has {size:d} bytes, and {least} are the least",
    "只有 {size} 字节，至少需要 {least} 字节",
)
OTHER_HASH: Final = MessageTemplate(
    "its hash is {found}, not {asked}",
    "哈希值是 {found}，而不是 {asked}",
)
HOLDS_NOT: Final = MessageTemplate(
    "it does not hold {text!r}",
    "不包含 {text}",
)
LACKS: Final = MessageTemplate(
    "it lacks {name!r}",
    "缺少 {name}",
)
NO_REPOSITORY: Final = MessageTemplate(
    "there is no repository to look at",
    "没有可以查看的仓库",
)
NONE_CHANGED: Final = MessageTemplate(
    "nothing that matches {glob!r} was changed",
    "没有修改任何匹配 {glob} 的内容",
)
PROTECTED_CHANGED: Final = MessageTemplate(
    "protected paths were changed: {names}",
    "修改了受保护的路径：{names}",
)
OTHER_STATUS: Final = MessageTemplate(
    "the status is {found:d}, not {asked}",
    "状态码是 {found}，而不是 {asked}",
)
NOT_STORED: Final = MessageTemplate(
    "the output {name!r} is not stored",
    "输出 {name} 没有保存",
)
OTHER_CONTENT: Final = MessageTemplate(
    "the output {name!r} is {found}, not {declared}",
    "输出 {name} 是 {found}，而不是 {declared}",
)
OWN_WORK: Final = MessageTemplate(
    "{who!r} made {name!r} and cannot accept it",
    "{who} 制作了 {name}，不能由自己验收",
)
NO_OWN_REPORT: Final = MessageTemplate(
    "the agent has reported nothing",
    "智能体没有提交任何报告",
)
NOBODY_ANSWERED: Final = MessageTemplate(
    "nobody has answered yet",
    "还没有人答复",
)
UNKNOWN_ANSWERED: Final = MessageTemplate(
    "it is not known who answered",
    "不知道是谁答复的",
)
SAID_NO: Final = MessageTemplate(
    "{by} said no",
    "{by} 不同意",
)
SAW_OTHER: Final = MessageTemplate(
    "{by} saw something else than there is now",
    "{by} 看到的与现在的内容不同",
)
CONFIRMED_BY: Final = MessageTemplate(
    "confirmed by {by}",
    "由 {by} 确认",
)
ATTESTED_BY: Final = MessageTemplate(
    "attested by {by}, not isolated: an agent that nothing confines could have said it",
    "由 {by} 声明，未隔离：未受限的代理也可能作出该回答",
)
WEAK: Final = MessageTemplate(
    "weak: it was not seen to fail before the work began",
    "证据薄弱：没有看到它在工作开始前失败",
)
NOT_ISOLATED: Final = MessageTemplate(
    "not isolated",
    "没有隔离运行",
)
NOT_XML: Final = MessageTemplate(
    "it is not XML: {error}",
    "不是 XML：{error}",
)
UNREADABLE: Final = MessageTemplate(
    "it cannot be read: {error}",
    "无法读取：{error}",
)
HAS_DOCTYPE: Final = MessageTemplate(
    "it has a DOCTYPE, which a report does not need",
    "含有 DOCTYPE，报告不需要它",
)
NO_SUITE: Final = MessageTemplate(
    "it begins with <{name}>, not with <testsuites> or <testsuite>",
    "以 <{name}> 开头，而不是 <testsuites> 或 <testsuite>",
)
TOO_DEEP: Final = MessageTemplate(
    "it is nested deeper than {depth:d} levels",
    "嵌套超过 {depth} 层",
)
NAMELESS_TEST: Final = MessageTemplate(
    "it has a test without a name",
    "有一个没有名称的测试",
)
ODD_COUNT: Final = MessageTemplate(
    "a number of failures is {text!r}",
    "失败数是 {text}",
)
OTHER_BEGINNING: Final = MessageTemplate(
    "{what}does not begin like {kind}",
    "{what}的开头不像 {kind}",
)
NOT_JSON: Final = MessageTemplate(
    "{what}is not JSON: {error}",
    "{what}不是 JSON：{error}",
)
NOT_UTF8: Final = MessageTemplate(
    "{what}is not text in UTF-8: byte {at:d} is wrong",
    "{what}不是 UTF-8 文本：第 {at} 字节有误",
)
ZERO_BYTE: Final = MessageTemplate(
    "{what}holds a zero byte, which no text does",
    "{what}含有零字节，文本中不会有",
)
NO_ADDRESS: Final = MessageTemplate(
    "{address!r} is no address",
    "{address} 不是地址",
)
METADATA_ADDRESS: Final = MessageTemplate(
    "{address} is where clouds hand out credentials",
    "{address} 是云平台发放凭据的地址",
)
NOT_PUBLIC: Final = MessageTemplate(
    "{address} is not a public address",
    "{address} 不是公网地址",
)
NOT_ANSWERED: Final = MessageTemplate(
    "{url} has not answered within {seconds:g} seconds",
    "{url} 在 {seconds} 秒内没有应答",
)
TOO_MANY_HOPS: Final = MessageTemplate(
    "{url} is one redirect too many",
    "{url}：重定向次数过多",
)
BAD_ADDRESS: Final = MessageTemplate(
    "{url!r} is no address: {error}",
    "{url} 不是地址：{error}",
)
NOT_HTTP: Final = MessageTemplate(
    "{url!r} is not http or https",
    "{url} 不是 http 或 https",
)
ADDRESS_WITH_NAME: Final = MessageTemplate(
    "an address must not hold a name or a password",
    "地址中不得含有用户名或密码",
)
HOST_NOT_FOUND: Final = MessageTemplate(
    "{host!r} is not found: {error}",
    "找不到 {host}：{error}",
)
CHECK_BROKE: Final = MessageTemplate(
    "the check broke: {kind}: {error}",
    "检查本身出错：{kind}: {error}",
)
NO_FORGE: Final = MessageTemplate(
    "no forge is connected here that could be asked",
    "这里没有连接可以查询的代码平台",
)
NO_CHECKOUT: Final = MessageTemplate(
    "there is no checkout to look at",
    "没有可以查看的工作树",
)
SETTINGS_CHANGED: Final = MessageTemplate(
    "its test settings were changed; put them back: {names}",
    "测试配置被修改，请改回：{names}",
)
SCHEMA_FAILED: Final = MessageTemplate(
    "{path} could not be judged by its schema: {error}",
    "无法按 schema 检查 {path}：{error}",
)
UNKNOWN_KIND: Final = MessageTemplate(
    "nothing here makes checks of kind {kind!r}",
    "这里无法执行类型为 {kind} 的检查",
)
OWN_FILE: Final = MessageTemplate(
    "the check's own file {path}: {why}",
    "检查自带的文件 {path}：{why}",
)
OWN_FILE_CHANGED: Final = MessageTemplate(
    "the check's own file {path} is {found}, not {said}",
    "检查自带的文件 {path} 是 {found}，而不是 {said}",
)
SHADOWS_RUNNER: Final = MessageTemplate(
    "{path} would run in the place of the test runner",
    "{path} 会冒充测试程序运行",
)
SHADOWS_MODULE: Final = MessageTemplate(
    "{path}: it would pass for a module of Python, the test runner or another program when checks run; "
    "name it otherwise",
    "{path}：运行检查时它会被当作 Python 自带模块、测试程序或其他程序；请改用其他名称",
)
NO_SANDBOX: Final = MessageTemplate(
    "a sandbox is required here: {error}",
    "这里要求使用沙箱：{error}",
)
SANDBOX_SWITCHED_OFF: Final = MessageTemplate(
    "install bubblewrap (make sandbox), and set checks.sandbox to best",
    "请安装 bubblewrap（make sandbox），并把 checks.sandbox 设为 best",
)
WEAKER_THAN_AGENT: Final = MessageTemplate(
    "the best that works is {tier}, and the work was made in {least}; install bubblewrap (make sandbox)",
    "可用的最好沙箱是 {tier}，而这项工作是在 {least} 中完成的；请安装 bubblewrap（make sandbox）",
)
PLANTED: Final = MessageTemplate(
    "workspace.prepare, as the work changed it, makes what is protected: {names}; let it make only what is installed",
    "经工作修改后的 workspace.prepare 生成了受保护的内容：{names}；请只让它生成要安装的内容",
)
TAMPERED: Final = MessageTemplate(
    "while it ran, something changed what decides about it: {names}",
    "在它运行期间，决定其结果的内容被更改：{names}",
)
NUL_IN_COMMAND: Final = MessageTemplate(
    "the command holds a NUL",
    "命令中含有 NUL",
)
PRINTED_NOTHING: Final = MessageTemplate(
    "it printed nothing",
    "没有任何输出",
)
NO_PROGRAM: Final = MessageTemplate(
    "a program is not there, or cannot be started (exit code {code})",
    "程序不存在或无法启动（退出码 {code}）",
)
NO_MODULE: Final = MessageTemplate(
    "Python does not find the module {name!r} that it is to run",
    "Python 找不到要运行的模块 {name}",
)
NO_SCRIPT: Final = MessageTemplate(
    "what it is to run is not there (exit code {code})",
    "要运行的内容不存在（退出码 {code}）",
)
NOTHING_COLLECTED: Final = MessageTemplate(
    "no test was found (exit code {code})",
    "没有找到任何测试（退出码 {code}）",
)
PYTEST_INTERRUPTED: Final = MessageTemplate(
    "pytest could not load the tests (exit code {code})",
    "pytest 无法加载测试（退出码 {code}）",
)
PYTEST_USAGE: Final = MessageTemplate(
    "pytest was called in a wrong way, or a path is not there (exit code {code})",
    "pytest 的调用方式有误，或某个路径不存在（退出码 {code}）",
)
CANNOT_RUN_BEFORE: Final = MessageTemplate(
    "the check {id!r} cannot run before the work: {why}",
    "检查 {id} 在工作开始前无法运行：{why}",
)
CANNOT_RUN_HINT: Final = MessageTemplate(
    "; have workspace.prepare install what is missing (or workspace.link lend it), correct the command, or write "
    "made_by_work: true if the work makes it. {run!r} printed: {said}",
    "；请用 workspace.prepare 安装缺少的内容（或用 workspace.link 引入），更正命令，"
    "或者如果由工作来创建它，请写 made_by_work: true。{run} 的输出：{said}",
)
PRINTED_TOO_MUCH: Final = MessageTemplate(
    "it printed more than {limit:,} bytes",
    "输出超过 {limit} 字节",
)
CANNOT: Final = MessageTemplate(
    "cannot {verb:s} {path!r}: {error}",
    "无法 {verb} {path}：{error}",
)
REFUSED: Final = MessageTemplate(
    "{path!r} is refused: {why}",
    "拒绝 {path}：{why}",
)
TOO_LARGE: Final = MessageTemplate(
    "it is larger than {limit:,} bytes",
    "超过 {limit} 字节",
)
CHANGED_ON_BRANCH: Final = MessageTemplate(
    "{path}: somebody changed it on the plan's branch, and it is protected",
    "{path}：有人在计划分支上修改了它，而它受保护",
)
OTHER_THAN_IN_TREE: Final = MessageTemplate(
    "{path}: the output is not the file of that name in the tree",
    "{path}：输出与工作树中的同名文件不同",
)
TOO_NESTED: Final = MessageTemplate(
    "it is nested deeper than {depth:d} folders",
    "嵌套超过 {depth} 层文件夹",
)
MISTAKEN_FOR: Final = MessageTemplate(
    "some systems would take it for {name!r}",
    "有些系统会把它当作 {name}",
)
IS_SUBMODULE: Final = MessageTemplate(
    "it is a submodule, whose content belongs to another repository",
    "它是子模块，内容属于另一个仓库",
)
TOO_MANY_FILES: Final = MessageTemplate(
    "the tree has more than {limit:,} files",
    "工作树的文件超过 {limit} 个",
)
NO_PLAIN_FILE: Final = MessageTemplate(
    "it is a FIFO, a socket or a device",
    "它是管道、套接字或设备",
)
CHANGED_WHILE_READ: Final = MessageTemplate(
    "it changed while it was read",
    "读取时它发生了变化",
)
TOO_MUCH_NEW: Final = MessageTemplate(
    "all that is new is more than {limit:,} bytes",
    "新增内容总计超过 {limit} 字节",
)
LINKED_OUTSIDE: Final = MessageTemplate(
    "the file has another name outside of the tree",
    "该文件在工作树之外还有另一个名称",
)
NO_SUBMODULES: Final = MessageTemplate(
    "submodules cannot be added or changed",
    "不能添加或修改子模块",
)
NAME_NOT_UTF8: Final = MessageTemplate(
    "its name is not UTF-8",
    "名称不是 UTF-8",
)
PATH_TOO_LONG: Final = MessageTemplate(
    "its path is longer than {limit:d} bytes",
    "路径超过 {limit} 字节",
)
BARE_GIT: Final = MessageTemplate(
    "with HEAD, objects and refs in it git would take this folder for a repository, and run what its config says; "
    "name one of them otherwise",
    "git 会把含有 HEAD、objects 和 refs 的文件夹当作仓库，并执行其配置中的命令；请将其中之一改名",
)
INNER_GIT: Final = MessageTemplate(
    "a .git inside the tree would make it another repository",
    "工作树内的 .git 会使它成为另一个仓库",
)
CIRCLE: Final = MessageTemplate(
    "it is a symlink that leads in a circle",
    "它是循环的符号链接",
)
INTO_GIT: Final = MessageTemplate(
    "it is a symlink into the repository's own folder",
    "它是指向仓库自身文件夹的符号链接",
)
REPORT_SHOWS: Final = MessageTemplate(
    "the runner ended with {code}, and the report shows failures",
    "测试程序以 {code} 结束，而报告显示有失败",
)
REPORT_SHOWS_NONE: Final = MessageTemplate(
    "the runner ended with {code}, and the report shows none",
    "测试程序以 {code} 结束，而报告没有显示失败",
)
ANSWER_HOLDS_NOT: Final = MessageTemplate(
    "the answer does not hold {text!r}",
    "应答中不包含 {text}",
)
PART_HOLDS_NOT: Final = MessageTemplate(
    "what could be read of the answer does not hold {text!r}",
    "能读到的应答中不包含 {text}",
)
ACCEPTED_OTHER: Final = MessageTemplate(
    "{who!r} has accepted something else as {name!r}",
    "{who} 验收的 {name} 是另一个版本",
)
ACCEPTED_NONE: Final = MessageTemplate(
    "{who!r} has accepted nothing as {name!r}",
    "{who} 还没有验收 {name}",
)
MORE: Final = MessageTemplate(
    "{names} and {count:d} more",
    "{names} 等另外 {count} 个",
)
FLAKY: Final = MessageTemplate(
    "flaky: {names}",
    "时好时坏：{names}",
)
HAS_NO_ADDRESS: Final = MessageTemplate(
    "it has no address",
    "它没有地址",
)
