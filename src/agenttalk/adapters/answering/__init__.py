"""The program that has a model answer, as the turn of an agent: `python -m agenttalk.adapters.answering`.

It is started for each turn like any other agent's program, so that whatever the model's library does can be ended,
limited and confined, and never is in the engine's way. It reads one request from its standard input, tells what happens
as lines of JSON (`rules.agents.model_protocol`), and leaves its answer where programs leave their results.
"""
