"""What the engine says of what it read at a forge, in English and Chinese."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from typing import Final

from agenttalk.rules.text.message import MessageTemplate

MERGED_BY_OTHER: Final = MessageTemplate(
    "{place} was merged by {who}, not by {by}",
    "{place} 由 {who} 合并，而不是 {by}",
)
MERGED_UNKNOWN: Final = MessageTemplate(
    "{by:s} merged {place:s} as {at}, and the forge does not show which head that was: look whether it was approved",
    "{by} 将 {place} 合并为 {at}，但代码平台没有显示合并的是哪个提交：请查看它是否获批",
)
MERGED_REJECTED: Final = MessageTemplate(
    "{by:s} merged {place:s} at {at} against {who:s}, who asks for changes: revert it, or have it agreed to",
    "{by} 在 {at} 合并了 {place}，而 {who} 要求修改：请撤销合并，或取得同意",
)
MERGED_UNAPPROVED: Final = MessageTemplate(
    "{by:s} merged {place:s} at {at}, which nobody approved: revert it, or have it reviewed",
    "{by} 在 {at} 合并了 {place}，而没有人批准该提交：请撤销合并，或请人审查",
)
MERGED_ELSEWHERE: Final = MessageTemplate(
    "{by:s} merged {place:s} at {at} into {into}, and it was approved for {base}: revert it, or have it approved there",
    "{by} 在 {at} 将 {place} 合并到 {into}，而获批的目标是 {base}：请撤销合并，或就该分支取得批准",
)
MERGED: Final = MessageTemplate(
    "{place} was merged by {who} at {at}",
    "{place} 由 {who} 在 {at} 合并",
)
NO_REVIEW: Final = MessageTemplate(
    "there is no review{which} of {place} by {by}",
    "没有 {by} 对 {place} 的审查{which}",
)
REVIEWED: Final = MessageTemplate(
    "{place} was reviewed by {by}: {verdict:s} of {commit}",
    "{place} 已由 {by} 审查：{commit} 的 {verdict}",
)
BAD_REVIEW: Final = MessageTemplate(
    "the review of {place:s} by {by:s} {why}",
    "{by} 对 {place} 的审查{why}",
)
TOO_EARLY: Final = MessageTemplate(
    "was handed in at {at}, before {since:s}",
    "提交于 {at}，早于 {since}",
)
OTHER_VERDICT: Final = MessageTemplate(
    "is {found:s}, and {asked} is asked for",
    "是 {found}，而要求的是 {asked}",
)
OLD_HEAD: Final = MessageTemplate(
    "is of {found}, an old head: it has to be of {asked}",
    "针对的是旧的提交 {found}：应当针对 {asked}",
)
UNKNOWN_HEAD: Final = MessageTemplate(
    "nobody knows which head {place} had",
    "不知道 {place} 之前的提交",
)
SAME_HEAD: Final = MessageTemplate(
    "the head of {place:s} is still {head}",
    "{place} 的最新提交仍是 {head}",
)
SAME_HEAD_CLOSED: Final = MessageTemplate(
    "the head of {place:s} was still {head} when it was closed; what is pushed afterwards does not count",
    "{place} 关闭时的最新提交仍是 {head}；之后推送的内容不算",
)
SAME_FILES: Final = MessageTemplate(
    "the head of {place:s} is {head}, and all its files are as at {before}",
    "{place} 的最新提交是 {head}，其全部文件与 {before} 时相同",
)
NOT_COMPARED: Final = MessageTemplate(
    "the head of {place:s} is {head}, and the forge does not show what differs from {before}",
    "{place} 的最新提交是 {head}，代码平台无法显示它与 {before} 的差别",
)
GIVEN_UP: Final = MessageTemplate(
    "{place:s} was closed and not merged",
    "{place} 已关闭，没有合并",
)
CHANGES_NOTHING: Final = MessageTemplate(
    "{place:s} changes no file",
    "{place} 没有改动任何文件",
)
NOTHING_NEW: Final = MessageTemplate(
    "the head of {place:s} is {head}, which adds nothing to {before}",
    "{place} 的最新提交是 {head}，相比 {before} 没有新增内容",
)
COMMITS_OF_OTHERS: Final = MessageTemplate(
    "the new commits of {place:s} were brought by {who}, not by {by}",
    "{place} 的新提交来自 {who}，而不是 {by}",
)
NEW_HEAD: Final = MessageTemplate(
    "{place:s} has a new head {head:s}, {commits} after {before}",
    "{place} 有新的提交 {head}（{before} 之后 {commits}）",
)
ANSWERS_OTHERS: Final = MessageTemplate(
    "no comment of {by:s} on {place:s} answers this: each answers one question, which its marker names, or else the "
    "last one before it",
    "{by} 在 {place} 的评论都没有回答这个问题：一条评论只回答一个问题，即其标记所指的问题，否则是它之前的最后一个",
)
COMMENTED: Final = MessageTemplate(
    "{by:s} wrote comment {id} on {place}",
    "{by} 在 {place} 写了评论 {id}",
)
NO_SUCH_STATUS: Final = MessageTemplate(
    "there is no status {name!r} of {place}",
    "{place} 没有状态 {name}",
)
NO_STATUS: Final = MessageTemplate(
    "{place} has no status",
    "{place} 没有任何状态",
)
BAD_STATUS: Final = MessageTemplate(
    "the status {name!r} of {place}, written by {by}, is no success of a service",
    "{place} 的状态 {name}（由 {by} 写入）不是服务报告的成功",
)
GOOD_STATUSES: Final = MessageTemplate(
    "{count:d} of {place} are good: {names}",
    "{place} 有 {count} 个状态成功：{names}",
)
PULL_NAMES_ISSUE: Final = MessageTemplate(
    "{repo:s}#{own:d} by {by} names #{number:d}",
    "{by} 的 {repo}#{own} 提到了 #{number}",
)
NO_COMMIT: Final = MessageTemplate(
    "no commit",
    "没有提交",
)
UNKNOWN_WHO: Final = MessageTemplate(
    "nobody knows whom",
    "不知道是谁",
)
CANNOT_BE_SEEN: Final = MessageTemplate(
    "nothing at the forge shows {action:s}",
    "代码平台上无法看出 {action}",
)
ANSWERED: Final = MessageTemplate(
    "{by:s} answered {count:d} comments on {repo:s}#{number:d}",
    "{by} 在 {repo}#{number} 回复了 {count} 条评论",
)
UNANSWERED: Final = MessageTemplate(
    "{needed:d} comments wait for an answer, and {written:d} were written; {why}",
    "有 {needed} 条评论等待回复，只写了 {written} 条；{why}",
)
ONLY_READ: Final = MessageTemplate(
    "nothing was asked for, so only the report tells that it was read",
    "没有要求做什么，只有报告能说明已经读过",
)
DEPLOY_UNSEEN: Final = MessageTemplate(
    "no source tells whether it was deployed",
    "没有来源能说明是否已部署",
)
DEPLOY_GOOD: Final = MessageTemplate(
    "{name!r} of {repo:s} at {at} is good",
    "{repo} 在 {at} 的 {name} 成功",
)
STILL_RED: Final = MessageTemplate(
    "{name!r} of {repo:s} at {at} is still red",
    "{repo} 在 {at} 的 {name} 仍然失败",
)
OTHER_REPOSITORY: Final = MessageTemplate(
    "it says {said:s}, and the task is about {repo:s}",
    "报告说的是 {said}，而任务针对的是 {repo}",
)
NAMES_NO_PULL: Final = MessageTemplate(
    "it names no pull request",
    "没有写明合并请求",
)
NOT_PUSHED: Final = MessageTemplate(
    "{why}, and {sha} was not pushed to it",
    "{why}，而 {sha} 没有推送到其中",
)
PULL_OF_OTHER: Final = MessageTemplate(
    "{place:s} is {who}'s, not {by}'s",
    "{place} 是 {who} 的，而不是 {by} 的",
)
REPORT_DENIED: Final = MessageTemplate(
    "the report says {said}, but {why}",
    "报告说 {said}，但 {why}",
)
NOT_ASKED: Final = MessageTemplate(
    "it could not be asked: {error}",
    "无法查询：{error}",
)
NOTHING_READ: Final = MessageTemplate(
    "nothing was read",
    "没有读取任何内容",
)
TOO_MANY_CLAIMS: Final = MessageTemplate(
    "there are more than {most:d} claims",
    "声明超过 {most} 条",
)
NO_STEP: Final = MessageTemplate(
    "there is no step {step}: there are {count:d}",
    "没有步骤 {step}：共有 {count} 步",
)
UNREADABLE_CLAIM: Final = MessageTemplate(
    "the claim {kind!r} cannot be read",
    "无法读取声明 {kind}",
)
NO_PULL: Final = MessageTemplate(
    "there is no pull request {place:s}",
    "没有合并请求 {place}",
)
NOT_MERGED_OPEN: Final = MessageTemplate(
    "{place:s} is not merged: it is open",
    "{place} 没有合并：它是打开的",
)
NOT_MERGED_CLOSED: Final = MessageTemplate(
    "{place:s} is not merged: it is closed",
    "{place} 没有合并：它已关闭",
)
EVER: Final = MessageTemplate(
    "ever",
    "有史以来",
)
NO_TIME: Final = MessageTemplate(
    "no known time",
    "未知时间",
)
NO_COMMENT: Final = MessageTemplate(
    "there is no comment{which} on {place:s} by {by:s} since {ever}",
    "自 {ever} 起 {by} 在 {place} 没有评论{which}",
)
NO_COMMENT_BUT: Final = MessageTemplate(
    "there is no comment{which} on {place:s} by {by:s} since {ever}; the last one is {last:s}'s",
    "自 {ever} 起 {by} 在 {place} 没有评论{which}；最后一条是 {last} 的",
)
NO_ISSUE: Final = MessageTemplate(
    "there is no issue {place:s}",
    "没有工单 {place}",
)
IS_OPEN: Final = MessageTemplate(
    "{place:s} is open",
    "{place} 是打开的",
)
IS_CLOSED: Final = MessageTemplate(
    "{place:s} is closed",
    "{place} 已关闭",
)
NONE_NAMES: Final = MessageTemplate(
    "no pull request by {by:s} since {since:s} names {place:s}",
    "自 {since} 起 {by} 没有提到 {place} 的合并请求",
)
NONE_NAMES_BUT: Final = MessageTemplate(
    "no pull request by {by:s} since {since:s} names {place:s}; {own:s} does not",
    "自 {since} 起 {by} 没有提到 {place} 的合并请求；{own} 没有提到",
)
THE_FAILURE: Final = MessageTemplate(
    "the failure",
    "那次失败",
)
NOT_DEPLOYED: Final = MessageTemplate(
    "there is no success of {name!r} in {repo:s} since {ever}",
    "自 {ever} 起 {repo} 中 {name} 没有成功过",
)
NAMES_NO_COMMIT: Final = MessageTemplate(
    "it names no commit",
    "没有写明提交",
)
COMMIT_IN: Final = MessageTemplate(
    "{sha:s} is in {repo:s}",
    "{sha} 在 {repo} 中",
)
COMMIT_NOT_IN: Final = MessageTemplate(
    "{sha:s} is not in {repo:s}",
    "{sha} 不在 {repo} 中",
)
HAS_HEAD: Final = MessageTemplate(
    "{place:s} has the head {head}",
    "{place} 的最新提交是 {head}",
)
PULL_BY: Final = MessageTemplate(
    "{place:s} is by {by:s}, opened at {at}",
    "{place} 由 {by} 于 {at} 打开",
)
STEP: Final = MessageTemplate(
    "step {step:d} ({text})",
    "步骤 {step}（{text}）",
)
AGREES: Final = MessageTemplate(
    "{by:s} agrees: {whys}",
    "{by} 同意：{whys}",
)
DISAGREES: Final = MessageTemplate(
    "{by:s} does not agree: {whys}",
    "{by} 不同意：{whys}",
)
BAD_STEP: Final = MessageTemplate(
    'not_applicable needs {{"step": N, "reason": "…"}}',
    'not_applicable 需要 {{"step": N, "reason": "…"}}',
)
ONE_COMMIT: Final = MessageTemplate("1 commit", "1 个提交")
COMMITS: Final = MessageTemplate("{count:d} commits", "{count} 个提交")
UNKNOWN_TIME: Final = MessageTemplate("a time that nobody knows", "未知时间")
WAS_DELETED: Final = MessageTemplate(
    "{place:s} was deleted",
    "{place} 已被删除",
)
WAS_MERGED: Final = MessageTemplate(
    "{place:s} was merged meanwhile, by {who}",
    "{place} 期间已由 {who} 合并",
)
WAS_CLOSED: Final = MessageTemplate(
    "{place:s} was closed meanwhile, by {who}",
    "{place} 期间已由 {who} 关闭",
)
WAS_UNASSIGNED: Final = MessageTemplate(
    "{place:s} was given to others meanwhile, by {who}",
    "{place} 期间已由 {who} 改派他人",
)
NEWER_HEAD: Final = MessageTemplate(
    "there is a newer head of {place:s} meanwhile: {head}",
    "{place} 期间有了更新的提交：{head}",
)
GREEN_AGAIN: Final = MessageTemplate(
    "the build of {place:s} is green again",
    "{place} 的构建已恢复正常",
)
REVIEW_OVER: Final = MessageTemplate(
    "the review of {place:s} by {who} does not hold any more",
    "{who} 对 {place} 的审查已不再有效",
)
CONFLICTS: Final = MessageTemplate(
    "{place:s} conflicts with {base}",
    "{place} 与 {base} 冲突",
)
AWAITS_CI: Final = MessageTemplate(
    "{place:s} waits for {name}",
    "{place} 正在等待 {name}",
)
AWAITS_GREEN: Final = MessageTemplate(
    "{place:s} waits until {name} is green",
    "{place} 正在等待 {name} 恢复正常",
)
AWAITS_MERGE: Final = MessageTemplate(
    "{place:s} is scheduled to be merged",
    "{place} 已安排自动合并",
)
AWAITS_APPROVALS: Final = MessageTemplate(
    "{place:s} has {have} of the {need} approvals that it needs",
    "{place} 需要 {need} 个批准，现有 {have} 个",
)
