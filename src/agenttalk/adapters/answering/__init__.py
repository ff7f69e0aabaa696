"""The program that asks a model for an answer, as the turn of an agent: `python -m agenttalk.adapters.answering`.

It is started for each turn like any other agent's program. So the model's library can be ended, limited and confined,
and never blocks the engine. It reads one request from its standard input, reports events as lines of JSON
(`rules.agents.model_protocol`), and writes its answer where programs leave their results.
"""
