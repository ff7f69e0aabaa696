"""LangGraph with SqliteSaver and durability "sync". `langgraph_sqlite.py SHAPE STEPS FOLDER` prints a line of JSON."""

import json
import operator
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

OUTPUT = "y" * 1024


class State(TypedDict):
    prompt: str
    count: int
    out: str
    made: Annotated[list, operator.add]


def chain(steps, saver):
    """One node that comes again until it has been there so often."""
    graph = StateGraph(State)
    graph.add_node("step", lambda state: {"count": state["count"] + 1, "out": OUTPUT})
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: END if state["count"] >= steps else "step")
    return graph.compile(checkpointer=saver)


def fan(steps, saver):
    """Many nodes side by side."""
    graph = StateGraph(State)
    graph.add_node("plan", lambda state: {})
    graph.add_node("step", lambda state: {"made": [len(OUTPUT)]})
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", lambda state: [Send("step", state) for _ in range(steps)], ["step"])
    return graph.compile(checkpointer=saver)


def main(shape, steps, folder):
    connection = sqlite3.connect(f"{folder}/graph.db", check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    first = {"prompt": "x" * 1400, "count": 0, "out": "", "made": []}

    def run(graph, thread, steps):
        config = {"configurable": {"thread_id": thread}, "recursion_limit": steps + 10}
        graph.invoke(first, config, durability="sync")

    run(chain(2, saver), "warm", 2)
    began, cpu = time.perf_counter(), time.process_time()
    if shape == "chain":
        run(chain(steps, saver), "t", steps)
    elif shape == "fanout":
        run(fan(steps, saver), "t", steps)
    elif shape == "inflight":
        graph = chain(steps // 32, saver)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: run(graph, f"t{n}", steps // 32), range(32)))
    else:
        graph = chain(1, saver)
        for number in range(steps):
            run(graph, f"t{number}", 1)
    print(json.dumps({"steps": steps, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}))


main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
