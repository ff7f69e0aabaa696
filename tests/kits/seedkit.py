"""Every example command of the specification, as it stands there."""

from __future__ import annotations

from typing import Any

USER_STORIES: dict[str, Any] = {
    "schema_version": "1.0",
    "command_id": "cmd_task_001",
    "plan_id": "plan_develop_ecommerce",
    "task_id": "task_001",
    "command_seq": 1,
    "idempotency_key": "plan_develop_ecommerce:task_001:cmd_task_001",
    "prompt": "分析需求文档并生成用户故事",
    "required_inputs": ["requirements.md"],
    "wait_for_inputs": True,
    "score_required": True,
    "score_criteria": "根据用户故事的完整性、清晰度、可测试性评分0-100",
    "on_complete": {"message_template": "用户故事生成完成: {result}, 评分: {score}"},
    "on_failure": {"message_template": "用户故事生成失败: {error}"},
    "timeout": 3600,
}
SKILL_CALL = {
    "command_id": "cmd_task_001",
    "plan_id": "plan_develop_ecommerce",
    "task_id": "task_001",
    "command_seq": 1,
    "prompt": "分析需求文档并生成用户故事",
    "required_inputs": ["requirements.md"],
    "wait_for_inputs": True,
    "score_required": True,
}
SMALLEST = {
    "command_id": "cmd_001",
    "plan_id": "plan_a3f5b2c8",
    "task_id": "task_001",
    "command_seq": 1,
    "schema_version": "1.0",
    "idempotency_key": "plan_a3f5b2c8:task_001:cmd_001",
    "prompt": "命令的提示词描述，告诉Agent要做什么",
    "required_inputs": ["feedback_agent_a.json", "feedback_agent_b.json"],
    "wait_for_inputs": True,
    "score_required": True,
    "score_criteria": "根据共识度和质量评分，范围0-100",
    "timeout": 3600,
    "on_complete": {"message_template": "评估已完成，结果: {result}, 分数: {score}"},
    "on_failure": {"message_template": "评估失败，错误: {error}"},
}
CONSENSUS = {
    "command_id": "cmd_review_consensus",
    "plan_id": "plan_project_approval",
    "task_id": "task_review_consensus",
    "command_seq": 1,
    "schema_version": "1.0",
    "timeout": 3600,
    "prompt": "检查所有团队成员的评分是否达成共识，如果共识度低于70分，说明分歧原因",
    "required_inputs": ["feedback_*.json"],
    "wait_for_inputs": True,
    "score_required": True,
    "score_criteria": "共识度评分，0-100分",
    "on_complete": {"message_template": "共识检查完成，结果: {result}, 共识度: {score}分"},
    "on_failure": {"message_template": "共识检查失败，错误: {error}"},
}
DELIVERY = {
    "command_id": "cmd_test_delivery",
    "plan_id": "plan_feature_development",
    "task_id": "task_test_delivery",
    "command_seq": 1,
    "schema_version": "1.0",
    "timeout": 3600,
    "prompt": "对开发者交付的代码进行测试，评估通过率，给出0-100分的质量评分",
    "required_inputs": ["delivery_package.zip", "test_spec.json"],
    "wait_for_inputs": True,
    "score_required": True,
    "score_criteria": "质量评分，0-100分",
    "on_complete": {"message_template": "测试完成，通过率: {result}, 质量评分: {score}分"},
    "on_failure": {"message_template": "测试失败，错误: {error}"},
}
SUMMARY = {
    "command_id": "cmd_summary_report",
    "plan_id": "plan_weekly_report",
    "task_id": "task_summary_report",
    "command_seq": 1,
    "schema_version": "1.0",
    "timeout": 1800,
    "prompt": "汇总所有Agent的周报，生成一份简洁的团队周报",
    "required_inputs": ["weekly_report_*.json"],
    "wait_for_inputs": True,
    "score_required": False,
    "on_complete": {"message_template": "团队周报已生成: {result}"},
    "on_failure": {"message_template": "周报汇总失败，错误: {error}"},
}
REEXECUTION = {
    "schema_version": "1.0",
    "command_id": "cmd_reexecute_001",
    "plan_id": "plan_develop_ecommerce",
    "idempotency_key": "plan_develop_ecommerce:task_001:reexecute",
    "original_task_id": "task_001",
    "original_agent": "agent_product_manager",
    "validation_result": {
        "validator": "agent_backend_developer",
        "score": 30,
        "reason": "需求文档不完整，缺少API接口定义",
        "issues": ["用户认证接口未定义", "商品查询接口参数不明确", "缺少错误处理规范"],
    },
    "prompt": "请补充完善需求文档，特别是API接口定义部分。",
    "required_inputs": ["previous_output.json", "validation_feedback.json"],
    "wait_for_inputs": True,
    "score_required": False,
    "timeout": 3600,
}
WITHOUT_ROUTING = {
    "plan_id": "plan_a3f5b2c8",
    "task_id": "task_002",
    "prompt": "评估代码质量，检查是否有bug、性能问题、安全问题，给出0-100分的质量评分",
    "score_required": True,
    "on_complete": {
        "notes": "Score branching is modeled in DAG (gates/thresholds + coordinator tasks), not by command routing."
    },
}
PROMPTS_ONLY: list[dict[str, Any]] = [
    {"prompt": "检查所有Agent的评分是否达成共识，给出0-100分的共识度评分", "score_required": True},
    {"prompt": "将所有反馈汇总成一份简洁的报告", "score_required": False},
]

EXAMPLES: list[tuple[dict[str, Any], str]] = [
    (USER_STORIES, "cmd_task_001_001"),
    (SKILL_CALL, "cmd_task_001_001"),
    (SMALLEST, "cmd_task_001_001"),
    (CONSENSUS, "cmd_task_review_consensus_001"),
    (DELIVERY, "cmd_task_test_delivery_001"),
    (SUMMARY, "cmd_task_summary_report_001"),
    (REEXECUTION, "cmd_task_001_001"),
    (WITHOUT_ROUTING, "cmd_task_002_001"),
]
