"""What is wrong with a plan, and what to do about it, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template, make_table

PLACED: Final = Template(
    "plan.placed", "{what} (line {line}, column {column})", "{what}（第 {line} 行，第 {column} 列）"
)

PROBLEMS: Final = make_table(
    "plan_problem",
    {
        # Names
        "unknown_agent": ("there is no agent {name!r}", "没有智能体 {name!r}"),
        "unknown_output": ("there is no output {name!r}", "没有产出 {name!r}"),
        "unknown_input": ("there is no input {name!r}", "没有输入 {name!r}"),
        "reserved_id": ("ids that begin with _ are those of boards", "以 _ 开头的 id 属于看板"),
        "reserved_name": ("{name!r} is a reserved name", "{name!r} 是保留名称"),
        "input_twice": ("task {task!r} has another input {name!r}", "任务 {task!r} 已有另一个输入 {name!r}"),
        # The graph
        "task_twice": ("there is another task {task!r}", "已有另一个任务 {task!r}"),
        "output_twice": (
            "task {task!r} declares the output {name!r} twice",
            "任务 {task!r} 重复声明了产出 {name!r}",
        ),
        "no_such_task": (
            "task {task!r} refers to the task {name!r}, which does not exist",
            "任务 {task!r} 引用了不存在的任务 {name!r}",
        ),
        "no_such_agent": ("the plan has no agent {name!r}", "计划中没有智能体 {name!r}"),
        "circle": ("tasks wait for each other in a circle: {path}", "任务互相等待，形成循环：{path}"),
        "fallback_missing": ("FALLBACK needs a fallback_task_id", "FALLBACK 需要 fallback_task_id"),
        "fallback_missing_here": ("FALLBACK needs a task under fallback", "FALLBACK 需要在 fallback 下写一个任务"),
        "fallback_itself": (
            "{name!r} cannot stand in for itself or for what it feeds",
            "{name!r} 不能替代自己，也不能替代它所供给的任务",
        ),
        "fallback_waits": (
            "{name!r} would wait for {tasks}, in whose place or before which it runs",
            "{name!r} 会等待 {tasks}，而它正是在这些任务之前或代替它们运行",
        ),
        "fallback_outputs": (
            "{name!r} makes {made}, but what it would replace makes {needed}",
            "{name!r} 生成 {made}，而它要替代的任务生成 {needed}",
        ),
        "too_complex": (
            "there are too many different globs over too many outputs to tell whether all inputs can arrive",
            "通配符和产出都太多，无法判断所有输入能否到达",
        ),
        "activated_late": (
            "task {task!r} is activated only by {names}, which waits for it",
            "任务 {task!r} 只由 {names} 激活，而后者在等待它",
        ),
        "no_hash": (
            "input {name!r} of task {task!r} is picked by hash, but no hash is allowed",
            "任务 {task!r} 的输入 {name!r} 按散列选取，但没有允许的散列",
        ),
        "too_few": (
            "input {name!r} of task {task!r} wants {wanted}, but {coming} can come",
            "任务 {task!r} 的输入 {name!r} 需要 {wanted} 个，但只能到达 {coming} 个",
        ),
        "only_later": (
            "task {task!r} needs {wanted!r}, which only {names} can make, and that waits for this task",
            "任务 {task!r} 需要 {wanted!r}，只有 {names} 能生成，而后者在等待此任务",
        ),
        "not_delivered": (
            "task {task!r} needs {wanted!r}, which {names} makes but does not deliver to {agent!r}",
            "任务 {task!r} 需要 {wanted!r}，{names} 会生成它，但不交付给 {agent!r}",
        ),
        "only_itself": (
            "task {task!r} needs {wanted!r}, which only it makes itself",
            "任务 {task!r} 需要 {wanted!r}，而只有它自己会生成",
        ),
        "nothing_makes": (
            "task {task!r} needs {wanted!r}, which nothing makes",
            "任务 {task!r} 需要 {wanted!r}，但没有任务生成它",
        ),
        "unreceived": (
            "no task receives the output {name!r} of task {task!r}",
            "没有任务接收任务 {task!r} 的产出 {name!r}",
        ),
        # Agents
        "own_fallback": ("{name!r} cannot stand in for itself", "{name!r} 不能替代自己"),
        "no_program": ("a script needs its program", "script 需要它的程序"),
        "no_tools": (
            "only coding agents, of the driver cli or acp, are given tools",
            "只有驱动为 cli 或 acp 的编程智能体才有工具",
        ),
        "other_driver": ("{driver!r} is not a built-in driver", "{driver!r} 不是内置驱动"),
        "no_worker": (
            "an agent of the driver {driver!r} does not run on a worker",
            "驱动为 {driver!r} 的智能体不在工作机上运行",
        ),
        "labels_unused": (
            "labels are of workers, and this agent runs on none",
            "标签属于工作机，而这个智能体不在工作机上运行",
        ),
        # Tasks
        "repository_unused": ("no task works in the repository", "没有任务在仓库中工作"),
        "no_repository": ("the plan names no repository", "计划没有指明仓库"),
        "blind_model": ("{agent!r} is a model, which sees no files", "{agent!r} 是模型，看不到文件"),
        "fallback_unused": (
            "{name!r} never takes a place, because on_dependency_failed is not FALLBACK",
            "{name!r} 永远不会替代，因为 on_dependency_failed 不是 FALLBACK",
        ),
        "sees_checks": (
            "{agent!r} gets its whole command, with every check of it",
            "{agent!r} 会得到完整的命令，包括其中的每项检查",
        ),
        "reviews_checks": (
            "{agent!r} reviews the plan, and would see its hidden checks",
            "{agent!r} 评审计划，会看到其中隐藏的检查",
        ),
        "gives_score": (
            "task {task!r} gives a score, because it says what the score measures",
            "任务 {task!r} 给出评分，因为它说明了评分的标准",
        ),
        "score_unused": ("no score is required, so this does nothing", "不要求评分，所以这里不起作用"),
        "no_score": (
            "this is about the score of task {task!r}, which gives none",
            "这里用到任务 {task!r} 的评分，而它不给出评分",
        ),
        "no_task": ("this threshold names no task", "这个阈值没有指明任务"),
        # What a plan means without saying so
        "takes_latest": (
            "the input {name!r} takes the latest of what {tasks} make ({pick})",
            "输入 {name!r} 取 {tasks} 所生成内容中最新的一个（{pick}）",
        ),
        "waits": (
            "task {task!r} waits for {name!r}, which makes this input",
            "任务 {task!r} 等待生成此输入的 {name!r}",
        ),
        "receives": (
            "{agent!r} receives {name!r} from task {task!r}",
            "{agent!r} 从任务 {task!r} 接收 {name!r}",
        ),
        # Reviews and releases
        "no_default_release": ("a timeout cannot approve a release", "超时不能批准发布"),
        "no_review_decision": ("this is not a decision of a review", "这不是评审的决定"),
        "no_reviewer": ("the review has no reviewer", "评审没有评审者"),
        "planner_reviews": (
            "{name!r} makes the plan, and cannot approve it",
            "{name!r} 制定计划，不能批准它",
        ),
        "nothing_to_ship": ("there is nothing to ship", "没有可发布的内容"),
        "check_or_validator": (
            "a gate has either a check or a validator",
            "一道关卡要么有检查，要么有验证者",
        ),
        "no_release_check": (
            "a check of kind {kind!r} cannot decide about a release",
            "{kind!r} 类检查不能决定发布",
        ),
        "maker_judges": (
            "{name!r} makes {output!r}, and cannot judge it",
            "{name!r} 生成 {output!r}，不能评判它",
        ),
        # Races
        "racer_twice": ("an agent of task {task!r} is named twice", "任务 {task!r} 的一个智能体写了两次"),
        "race_id": (
            "the task {name} of the race needs an id that is free and valid",
            "竞赛的任务 {name} 需要一个可用且有效的 id",
        ),
        "race_called": (
            "task {task!r} runs only if {name!r} calls for it, so agents cannot race for it",
            "任务 {task!r} 只在 {name!r} 调用时运行，所以智能体不能竞争它",
        ),
        # The repository
        "uncommitted": (
            "not committed, so no task sees it: {paths}",
            "尚未提交，任务看不到：{paths}",
        ),
        "changes_checks": (
            "the work may change what its checks consist of, because its scope names it: {paths}",
            "工作可以改动其检查所包含的内容，因为其范围写明了：{paths}",
        ),
        "nothing_protected": (
            "no file is known of which the check {check!r} consists, so none is protected",
            "不知道检查 {check!r} 由哪些文件组成，所以没有文件受保护",
        ),
        "program_protected": (
            "the work cannot change {paths}, because the check {check!r} runs it",
            "工作不能改动 {paths}，因为检查 {check!r} 会运行它",
        ),
        "protects_nothing": (
            "the check {check!r} protects nothing, so the work may change what it consists of",
            "检查 {check!r} 不保护任何内容，所以工作可以改动它所包含的内容",
        ),
        "configuration_open": (
            "the work may change how the check {check!r} runs tests (protect_config: false)",
            "工作可以改动检查 {check!r} 运行测试的方式（protect_config: false）",
        ),
        # Promises
        "unshown": ("nothing would show the criterion {name!r}", "没有什么能证明标准 {name!r}"),
        "only_reports": (
            "the criterion {name!r} rests only on the agent's own reports",
            "标准 {name!r} 只依据智能体自己的报告",
        ),
        "unmade": (
            "no check makes the evidence {name!r}, so an agent or a person has to deliver it",
            "没有检查产生证据 {name!r}，须由智能体或人提供",
        ),
        "pre_ship": (
            "no task reaches the checkpoint 'pre-ship': it belongs to the whole plan",
            "没有任务会到达检查点 'pre-ship'：它属于整个计划",
        ),
        "unknown_criterion": ("there is no criterion {name!r}", "没有标准 {name!r}"),
        "unknown_checkpoint": ("there is no checkpoint {name!r}", "没有检查点 {name!r}"),
        "unknown_evidence": ("there is no evidence {name!r}", "没有证据 {name!r}"),
        "unknown_budget": ("there is no budget {name!r}", "没有预算 {name!r}"),
        "check_twice": ("there is another check {name!r}", "已有另一项检查 {name!r}"),
        "other_kind": (
            "checks of kind {kind!r} are not built in; an extension has to bring them",
            "{kind!r} 类检查不是内置的；需要扩展提供",
        ),
        "unnoticed": ("no check {name!r} could notice the faults", "没有检查 {name!r} 能发现这些错误"),
        "accepted_late": (
            "{name!r} is accepted only after task {task!r} is done, and that waits for it",
            "{name!r} 只有在任务 {task!r} 完成后才被接受，而后者在等待它",
        ),
        "all_protected": (
            "all of {glob!r} is protected by {outer!r} of the check {check!r}",
            "{glob!r} 全部受检查 {check!r} 的 {outer!r} 保护",
        ),
    },
)
"""What is wrong with a plan, or doubtful."""
HINTS: Final = make_table(
    "plan_hint",
    {
        "near": ("did you mean {name!r}?", "是否指 {name!r}？"),
        "options": ("there are: {names}", "可选：{names}"),
        "add_agent": ("add the agent or name another", "请添加该智能体，或改用其他智能体"),
        "add_output": ("add the output or name another", "请添加该产出，或改用其他产出"),
        "add_input": ("add the input or name another", "请添加该输入，或改用其他输入"),
        "add_task": ("add the task or remove the reference", "请添加该任务，或去掉引用"),
        "describe_agent": (
            "describe it under agents, or name the root whose agenttalk.toml does (--root)",
            "请在 agents 下描述它，或指明其 agenttalk.toml 中有它的根目录（--root）",
        ),
        "begin_with_letter": ("begin with a letter", "请以字母开头"),
        "other_name": ("choose another one", "请另选一个"),
        "other_agent": ("name another agent", "请指定另一个智能体"),
        "own_task_id": ("give each task an id of its own", "请给每个任务各自的 id"),
        "own_output_name": ("give each output a name of its own", "请给每个产出各自的名称"),
        "own_input_name": ("give each input a name of its own", "请给每个输入各自的名称"),
        "own_check_id": ("give each check an id of its own", "请给每项检查各自的 id"),
        "name_task": ("name the task", "请指明任务"),
        "free_task": ("name a task that nothing here needs", "请指明一个这里没有任务需要的任务"),
        "cut_dependency": ("remove that dependency", "请去掉这个依赖"),
        "cut_one": ("remove one of these dependencies", "请去掉其中一个依赖"),
        "cut_circle": ("remove the circle", "请消除循环"),
        "same_outputs": ("declare the same outputs", "请声明相同的产出"),
        "simpler_globs": (
            "begin or end the globs with fixed text, or select outputs by name",
            "请让通配符以固定文字开头或结尾，或按名称选择产出",
        ),
        "later_task": ("activate a task that comes later", "请激活一个更靠后的任务"),
        "allow_hashes": ("list allowed_hashes in the selector", "请在选择器中列出 allowed_hashes"),
        "fewer": ("lower min_count or add producers", "请降低 min_count，或添加生成者"),
        "deliver": ("add {agent!r} to that output's deliver_to", "请把 {agent!r} 加入该产出的 deliver_to"),
        "declare_output": (
            "declare the output, or mark the input as external",
            "请声明该产出，或把输入标为 external",
        ),
        "name_receiver": (
            "name who gets it in deliver_to, or mark it as a deliverable",
            "请在 deliver_to 中写明接收者，或把它标为交付物",
        ),
        "pick": ("'pick' changes this", "可用 'pick' 改变"),
        "write_reject": ("write REJECT, or leave it out", "请写 REJECT，或去掉它"),
        "name_agents": ("name agents", "请指定智能体"),
        "mark_outputs": (
            "mark outputs with deliverable: true, or name them under release.deliverables",
            "请用 deliverable: true 标出产出，或写在 release.deliverables 下",
        ),
        "write_gate": (
            "write the keys of a check (kind: run, …), or validator: AGENT",
            "请写检查的键（kind: run 等），或 validator: AGENT",
        ),
        "on_artifacts": ("write on: artifacts", "请写 on: artifacts"),
        "once_each": (
            "name each agent once; the one under agent takes part anyway",
            "每个智能体只写一次；agent 下的那个本来就参加",
        ),
        "describe_racer": (
            "describe it under agents, or name another",
            "请在 agents 下描述它，或改用其他智能体",
        ),
        "other_task_id": ("give one of the tasks another id", "请给其中一个任务换一个 id"),
        "race_always": ("use race at a task that always runs", "请在总会运行的任务上使用 race"),
        "commit": (
            "commit it, or take it along: workspace.uncommitted: take ('agenttalk run --take-uncommitted')",
            "请提交，或一并带上：workspace.uncommitted: take（'agenttalk run --take-uncommitted'）",
        ),
        "protect_it": ("leave it out there to protect it", "请在那里去掉它，以保护它"),
        "name_tests": ("name its tests in protected", "请在 protected 中写明其测试"),
        "allow_program": (
            "if it is what the work is about, name it in allowedScope, or write protected: []",
            "如果工作就是要改它，请写入 allowedScope，或写 protected: []",
        ),
        "protect_files": ("leave out protected to protect that", "请去掉 protected，以保护这些内容"),
        "protect_settings": ("leave it out to protect that", "请去掉它，以保护这些内容"),
        "add_argv": ("add argv", "请添加 argv"),
        "remove_it": ("remove it", "请去掉它"),
        "remove_one": ("remove one of the two", "请去掉两者之一"),
        "use_one": ("use one of: {names}", "请使用其中之一：{names}"),
        "add_pool": ("add its pool", "请添加它的 pool"),
        "write_repo": ("write workspace: repo at those that do", "请在使用仓库的任务上写 workspace: repo"),
        "add_workspace": (
            "add workspace: {{repo: FOLDER}} to the plan",
            "请在计划中添加 workspace: {{repo: FOLDER}}",
        ),
        "make_outputs": (
            "have it make outputs, or use driver cli",
            "请让它生成产出，或使用驱动 cli",
        ),
        "hide_none": (
            "hide no check from it, or give it another driver",
            "请不要对它隐藏检查，或换一个驱动",
        ),
        "other_reviewers": ("have others review it, or hide no check", "请由他人评审，或不隐藏检查"),
        "require_score": ("add score_required: true there", "请在那里添加 score_required: true"),
        "write_threshold": ("write <task_id>{ending}", "请写 <task_id>{ending}"),
        "name_check": ("name a check, or add one of kind human", "请指定一项检查，或添加 human 类检查"),
        "engine_check": (
            "name a check that the engine runs, or write minTrust: claimed",
            "请指定一项由引擎运行的检查，或写 minTrust: claimed",
        ),
        "add_check": ("add a check of that id", "请添加该 id 的检查"),
        "other_checkpoint": ("ask for post-act or pre-verify", "请改用 post-act 或 pre-verify"),
        "spelling": ("check the spelling", "请检查拼写"),
        "see_checks": ("see docs/reference/checks.md", "见 docs/reference/checks.md"),
        "run_check": (
            "name a check of the kind run or tests of this promise",
            "请指定此承诺中 run 或 tests 类的检查",
        ),
        "later_check": (
            "leave accepted_by out here, and check it in a later task",
            "请在这里去掉 accepted_by，在之后的任务中检查",
        ),
        "allow_other": (
            "allow something else, or protect less (protected, protect_config: false)",
            "请允许其他内容，或减少保护（protected、protect_config: false）",
        ),
    },
)
"""What to do about it."""
