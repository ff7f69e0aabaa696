"""LangGraph with SqliteSaver and durability "sync". `-m bench.peers.langgraph SHAPE STEPS FOLDER THREADS`."""

import operator
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, TypedDict

from bench.peers.watch import OUTPUT, PLANS, PROMPT, Watch, tell
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

WATCH = Watch()


class State(TypedDict):
    plan: int
    prompt: str
    count: int
    out: str
    made: Annotated[list, operator.add]


def link(state):
    WATCH.enter(state["plan"])
    made = {"count": state["count"] + 1, "out": OUTPUT}
    WATCH.leave(state["plan"])
    return made


def side(state):
    WATCH.enter(None)
    return {"made": [OUTPUT]}


def chain(steps, saver):
    """A node for each step, one after the other."""
    graph = StateGraph(State)
    for number in range(steps):
        graph.add_node(f"t{number}", link)
        graph.add_edge(f"t{number - 1}" if number else START, f"t{number}")
    graph.add_edge(f"t{steps - 1}", END)
    return graph.compile(checkpointer=saver)


def loop(steps, saver):
    """One node that comes again until it has been there so often."""
    graph = StateGraph(State)
    graph.add_node("step", link)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: END if state["count"] >= steps else "step")
    return graph.compile(checkpointer=saver)


def fan(steps, saver):
    """Many nodes side by side."""
    graph = StateGraph(State)
    graph.add_node("step", side)
    graph.add_conditional_edges(START, lambda state: [Send("step", state) for _ in range(steps)], ["step"])
    return graph.compile(checkpointer=saver)


def run(graph, plan, steps, threads):
    first = {"plan": plan, "prompt": PROMPT, "count": 0, "out": "", "made": []}
    config = {"configurable": {"thread_id": str(plan)}, "recursion_limit": steps + 10, "max_concurrency": threads}
    graph.invoke(first, config, durability="sync")


def main(shape, steps, folder, threads):
    saver = SqliteSaver(sqlite3.connect(f"{folder}/graph.db", check_same_thread=False))
    saver.setup()
    length = {"inflight": steps // PLANS, "single": 1}.get(shape, steps)
    plans = {"inflight": PLANS, "single": steps}.get(shape, 1)
    make = {"fanout": fan, "loop": loop}.get(shape, chain)
    run(make(3, saver), "warm", 3, threads)
    ready = [] if shape == "single" else [make(length, saver) for _ in range(plans)]
    with ThreadPoolExecutor(threads) as pool:
        WATCH.begin()
        list(pool.map(lambda plan: run(ready[plan] if ready else make(1, saver), plan, length, threads), range(plans)))
        tell(WATCH.end("chain" if shape == "loop" else shape, steps))


main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
