"""What the forge shows of an agent's work, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import Template

MERGED_BY_OTHER: Final = Template(
    "forge.merged_by_other",
    "{place} was merged by {who}, not by {by}",
    "{place} 由 {who} 合并，而不是 {by}",
)
MERGED_UNKNOWN: Final = Template(
    "forge.merged_unknown",
    "{by} merged {place} as {at}, and the forge does not show which head that was: look whether it was approved",
    "{by} 将 {place} 合并为 {at}，但代码平台没有显示合并的是哪个提交：请查看它是否获批",
)
MERGED_REJECTED: Final = Template(
    "forge.merged_rejected",
    "{by} merged {place} at {at} against {who}, who asks for changes: revert it, or have it agreed to",
    "{by} 在 {at} 合并了 {place}，而 {who} 要求修改：请撤销合并，或取得同意",
)
MERGED_UNAPPROVED: Final = Template(
    "forge.merged_unapproved",
    "{by} merged {place} at {at} without an approval: revert it, or have it reviewed",
    "{by} 在 {at} 合并了 {place}，而没有人批准该提交：请撤销合并，或请人审查",
)
MERGED_ELSEWHERE: Final = Template(
    "forge.merged_elsewhere",
    "{by} merged {place} at {at} into {into}, and it was approved for {base}: revert it, or have it approved there",
    "{by} 在 {at} 将 {place} 合并到 {into}，而获批的目标是 {base}：请撤销合并，或就该分支取得批准",
)
MERGED: Final = Template(
    "forge.merged",
    "{place} was merged by {who} at {at}",
    "{place} 由 {who} 在 {at} 合并",
)
NO_REVIEW: Final = Template(
    "forge.no_review",
    "there is no review{which} of {place} by {by}",
    "没有 {by} 对 {place} 的审查{which}",
)
REVIEWED: Final = Template(
    "forge.reviewed",
    "{place} was reviewed by {by}: {verdict} of {commit}",
    "{place} 已由 {by} 审查：{commit} 的 {verdict}",
)
BAD_REVIEW: Final = Template(
    "forge.bad_review",
    "the review of {place} by {by} {why}",
    "{by} 对 {place} 的审查{why}",
)
TOO_EARLY: Final = Template(
    "forge.too_early",
    "was handed in at {at}, before {since}",
    "提交于 {at}，早于 {since}",
)
OTHER_VERDICT: Final = Template(
    "forge.other_verdict",
    "is {found}; {asked} is required",
    "是 {found}，而要求的是 {asked}",
)
OLD_HEAD: Final = Template(
    "forge.old_head",
    "is of {found}, not of the newest head {asked}",
    "针对的是旧的提交 {found}：应当针对 {asked}",
)
UNKNOWN_HEAD: Final = Template(
    "forge.unknown_head",
    "it is unknown which head {place} had",
    "不知道 {place} 之前的提交",
)
SAME_HEAD: Final = Template(
    "forge.same_head",
    "the head of {place} is still {head}",
    "{place} 的最新提交仍是 {head}",
)
SAME_HEAD_CLOSED: Final = Template(
    "forge.same_head_closed",
    "the head of {place} was still {head} when it was closed; what is pushed afterwards does not count",
    "{place} 关闭时的最新提交仍是 {head}；之后推送的内容不算",
)
SAME_FILES: Final = Template(
    "forge.same_files",
    "the head of {place} is {head}, and all its files are as at {before}",
    "{place} 的最新提交是 {head}，其全部文件与 {before} 时相同",
)
NOT_COMPARED: Final = Template(
    "forge.not_compared",
    "the head of {place} is {head}, and the forge does not show what differs from {before}",
    "{place} 的最新提交是 {head}，代码平台无法显示它与 {before} 的差别",
)
GIVEN_UP: Final = Template(
    "forge.given_up",
    "{place} was closed and not merged",
    "{place} 已关闭，没有合并",
)
CHANGES_NOTHING: Final = Template(
    "forge.changes_nothing",
    "{place} changes no file",
    "{place} 没有改动任何文件",
)
NOTHING_NEW: Final = Template(
    "forge.nothing_new",
    "the head of {place} is {head}, which adds nothing to {before}",
    "{place} 的最新提交是 {head}，相比 {before} 没有新增内容",
)
COMMITS_OF_OTHERS: Final = Template(
    "forge.commits_of_others",
    "the new commits of {place} were brought by {who}, not by {by}",
    "{place} 的新提交来自 {who}，而不是 {by}",
)
NEW_HEAD: Final = Template(
    "forge.new_head",
    "{place} has a new head {head}, {commits} after {before}",
    "{place} 有新的提交 {head}（{before} 之后 {commits}）",
)
ANSWERS_OTHERS: Final = Template(
    "forge.answers_others",
    "no comment of {by} on {place} answers this: each answers one question, which its marker names, or else the "
    "last one before it",
    "{by} 在 {place} 的评论都没有回答这个问题：一条评论只回答一个问题，即其标记所指的问题，否则是它之前的最后一个",
)
COMMENTED: Final = Template(
    "forge.commented",
    "{by} wrote comment {id} on {place}",
    "{by} 在 {place} 写了评论 {id}",
)
NO_SUCH_STATUS: Final = Template(
    "forge.no_such_status",
    "there is no status {name!r} of {place}",
    "{place} 没有状态 {name!r}",
)
NO_STATUS: Final = Template(
    "forge.no_status",
    "{place} has no status",
    "{place} 没有任何状态",
)
BAD_STATUS: Final = Template(
    "forge.bad_status",
    "the status {name!r} of {place}, written by {by}, is not a success of a service",
    "{place} 的状态 {name!r}（由 {by} 写入）不是服务报告的成功",
)
GOOD_STATUSES: Final = Template(
    "forge.good_statuses",
    "{count} of {place} are good: {names}",
    "{place} 有 {count} 个状态成功：{names}",
)
PULL_NAMES_ISSUE: Final = Template(
    "forge.pull_names_issue",
    "{repo}#{own} by {by} names #{number}",
    "{by} 的 {repo}#{own} 提到了 #{number}",
)
NO_COMMIT: Final = Template(
    "forge.no_commit",
    "no commit",
    "没有提交",
)
UNKNOWN_WHO: Final = Template(
    "forge.unknown_who",
    "an unknown account",
    "不知道是谁",
)
CANNOT_BE_SEEN: Final = Template(
    "forge.cannot_be_seen",
    "nothing at the forge shows {action}",
    "代码平台上无法看出 {action}",
)
ANSWERED: Final = Template(
    "forge.answered",
    "{by} answered {count} comments on {repo}#{number}",
    "{by} 在 {repo}#{number} 回复了 {count} 条评论",
)
UNANSWERED: Final = Template(
    "forge.unanswered",
    "{needed} comments wait for an answer, and {written} were written; {why}",
    "有 {needed} 条评论等待回复，只写了 {written} 条；{why}",
)
ONLY_READ: Final = Template(
    "forge.only_read",
    "the task asked for nothing, so only the report shows that the agent read it",
    "没有要求做什么，只有报告能说明已经读过",
)
DEPLOY_UNSEEN: Final = Template(
    "forge.deploy_unseen",
    "no source reports whether it was deployed",
    "没有来源能说明是否已部署",
)
DEPLOY_GOOD: Final = Template(
    "forge.deploy_good",
    "{name!r} of {repo} at {at} is good",
    "{repo} 在 {at} 的 {name!r} 成功",
)
STILL_RED: Final = Template(
    "forge.still_red",
    "{name!r} of {repo} at {at} is still red",
    "{repo} 在 {at} 的 {name!r} 仍然失败",
)
OTHER_REPOSITORY: Final = Template(
    "forge.other_repository",
    "it says {said}, and the task is about {repo}",
    "报告说的是 {said}，而任务针对的是 {repo}",
)
NAMES_NO_PULL: Final = Template(
    "forge.names_no_pull",
    "it names no pull request",
    "没有写明合并请求",
)
NOT_PUSHED: Final = Template(
    "forge.not_pushed",
    "{why}, and {sha} was not pushed to it",
    "{why}，而 {sha} 没有推送到其中",
)
PULL_OF_OTHER: Final = Template(
    "forge.pull_of_other",
    "{place} is by {who}, not by {by}",
    "{place} 是 {who} 的，而不是 {by} 的",
)
REPORT_DENIED: Final = Template(
    "forge.report_denied",
    "the report says {said}, but {why}",
    "报告说 {said}，但 {why}",
)
NOT_ASKED: Final = Template(
    "forge.not_asked",
    "the forge could not be read: {error}",
    "无法查询：{error}",
)
FORGE_NOT_ASKED: Final = Template("forge.not_asked_at_all", "the forge was not read", "没有询问代码平台")
DEPLOYED: Final = Template("forge.deployed", "{environment!r} was deployed at {sha}", "{environment!r} 已部署 {sha}")
NO_REPORT: Final = Template(
    "forge.no_report", "there is no report, no output and no comment", "没有报告、没有输出，也没有评论"
)
STORED: Final = Template("forge.stored", "stored for {agent}", "已为 {agent} 保存")
NO_ACCOUNT: Final = Template(
    "forge.no_account",
    "{agent} has no account at {source}, so its work there cannot be verified",
    "{agent} 在 {source} 没有账号，所以无法核实它在那里的工作",
)
TURN_ENDED: Final = Template("forge.turn_ended", "the agent ended its turn", "智能体结束了本轮")
HAS_OUTPUT: Final = Template("forge.has_output", "an output was handed in", "已提交输出")
HAS_REPORT: Final = Template("forge.has_report", "an action report was submitted", "已提交操作报告")
HAS_COMMENT: Final = Template("forge.has_comment", "a comment was written", "已写评论")
NOTHING_READ: Final = Template(
    "forge.nothing_read",
    "nothing was read",
    "没有读取任何内容",
)
TOO_MANY_CLAIMS: Final = Template(
    "forge.too_many_claims",
    "there are more than {most} claims",
    "声明超过 {most} 条",
)
NO_STEP: Final = Template(
    "forge.no_step",
    "there is no step {step}: there are {count}",
    "没有步骤 {step}：共有 {count} 步",
)
UNREADABLE_CLAIM: Final = Template(
    "forge.unreadable_claim",
    "the claim {kind!r} cannot be read",
    "无法读取声明 {kind!r}",
)
NO_PULL: Final = Template(
    "forge.no_pull",
    "there is no pull request {place}",
    "没有合并请求 {place}",
)
NOT_MERGED_OPEN: Final = Template(
    "forge.not_merged_open",
    "{place} is not merged: it is open",
    "{place} 没有合并：它是打开的",
)
NOT_MERGED_CLOSED: Final = Template(
    "forge.not_merged_closed",
    "{place} is not merged: it is closed",
    "{place} 没有合并：它已关闭",
)
EVER: Final = Template(
    "forge.ever",
    "ever",
    "有史以来",
)
NO_TIME: Final = Template(
    "forge.no_time",
    "no known time",
    "未知时间",
)
NO_COMMENT: Final = Template(
    "forge.no_comment",
    "there is no comment{which} on {place} by {by} since {ever}",
    "自 {ever} 起 {by} 在 {place} 没有评论{which}",
)
NO_COMMENT_BUT: Final = Template(
    "forge.no_comment_but",
    "there is no comment{which} on {place} by {by} since {ever}; the last one is {last}'s",
    "自 {ever} 起 {by} 在 {place} 没有评论{which}；最后一条是 {last} 的",
)
NO_ISSUE: Final = Template(
    "forge.no_issue",
    "there is no issue {place}",
    "没有工单 {place}",
)
IS_OPEN: Final = Template(
    "forge.is_open",
    "{place} is open",
    "{place} 是打开的",
)
IS_CLOSED: Final = Template(
    "forge.is_closed",
    "{place} is closed",
    "{place} 已关闭",
)
NONE_NAMES: Final = Template(
    "forge.none_names",
    "no pull request by {by} since {since} names {place}",
    "自 {since} 起 {by} 没有提到 {place} 的合并请求",
)
NONE_NAMES_BUT: Final = Template(
    "forge.none_names_but",
    "no pull request by {by} since {since} names {place}; {own} does not",
    "自 {since} 起 {by} 没有提到 {place} 的合并请求；{own} 没有提到",
)
THE_FAILURE: Final = Template(
    "forge.the_failure",
    "the failure",
    "那次失败",
)
NOT_DEPLOYED: Final = Template(
    "forge.not_deployed",
    "there is no success of {name!r} in {repo} since {ever}",
    "自 {ever} 起 {repo} 中 {name!r} 没有成功过",
)
NAMES_NO_COMMIT: Final = Template(
    "forge.names_no_commit",
    "it names no commit",
    "没有写明提交",
)
COMMIT_IN: Final = Template(
    "forge.commit_in",
    "{sha} is in {repo}",
    "{sha} 在 {repo} 中",
)
COMMIT_NOT_IN: Final = Template(
    "forge.commit_not_in",
    "{sha} is not in {repo}",
    "{sha} 不在 {repo} 中",
)
HAS_HEAD: Final = Template(
    "forge.has_head",
    "{place} has the head {head}",
    "{place} 的最新提交是 {head}",
)
PULL_BY: Final = Template(
    "forge.pull_by",
    "{place} is by {by}, opened at {at}",
    "{place} 由 {by} 于 {at} 打开",
)
STEP: Final = Template(
    "forge.step",
    "step {step} ({text})",
    "步骤 {step}（{text}）",
)
AGREES: Final = Template(
    "forge.agrees",
    "{by} agrees: {whys}",
    "{by} 同意：{whys}",
)
DISAGREES: Final = Template(
    "forge.disagrees",
    "{by} does not agree: {whys}",
    "{by} 不同意：{whys}",
)
BAD_STEP: Final = Template(
    "forge.bad_step",
    'not_applicable needs {{"step": N, "reason": "…"}}',
    'not_applicable 需要 {{"step": N, "reason": "…"}}',
)
ONE_COMMIT: Final = Template("forge.one_commit", "1 commit", "1 个提交")
COMMITS: Final = Template("forge.commits", "{count} commits", "{count} 个提交")
UNKNOWN_TIME: Final = Template("forge.unknown_time", "an unknown time", "未知时间")
WAS_DELETED: Final = Template(
    "forge.was_deleted",
    "{place} was deleted",
    "{place} 已被删除",
)
WAS_MERGED: Final = Template(
    "forge.was_merged",
    "{place} was merged meanwhile, by {who}",
    "{place} 期间已由 {who} 合并",
)
WAS_CLOSED: Final = Template(
    "forge.was_closed",
    "{place} was closed meanwhile, by {who}",
    "{place} 期间已由 {who} 关闭",
)
WAS_UNASSIGNED: Final = Template(
    "forge.was_unassigned",
    "{place} was reassigned meanwhile, by {who}",
    "{place} 期间已由 {who} 改派他人",
)
NEWER_HEAD: Final = Template(
    "forge.newer_head",
    "there is a newer head of {place} meanwhile: {head}",
    "{place} 期间有了更新的提交：{head}",
)
GREEN_AGAIN: Final = Template(
    "forge.green_again",
    "the build of {place} is green again",
    "{place} 的构建已恢复正常",
)
REVIEW_OVER: Final = Template(
    "forge.review_over",
    "the review of {place} by {who} no longer holds",
    "{who} 对 {place} 的审查已不再有效",
)
CONFLICTS: Final = Template(
    "forge.conflicts",
    "{place} conflicts with {base}",
    "{place} 与 {base} 冲突",
)
AWAITS_CI: Final = Template(
    "forge.awaits_ci",
    "{place} waits for {name}",
    "{place} 正在等待 {name}",
)
AWAITS_GREEN: Final = Template(
    "forge.awaits_green",
    "{place} waits until {name} is green",
    "{place} 正在等待 {name} 恢复正常",
)
AWAITS_MERGE: Final = Template(
    "forge.awaits_merge",
    "{place} is scheduled to be merged",
    "{place} 已安排自动合并",
)
AWAITS_APPROVALS: Final = Template(
    "forge.awaits_approvals",
    "{place} has {have} of the {need} approvals that it needs",
    "{place} 需要 {need} 个批准，现有 {have} 个",
)
