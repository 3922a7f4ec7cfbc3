#!/usr/bin/env python3
"""A parallelizer in Python for `tangram plan --parallelizer process`: one stage of plain data and tensor parallelism.

    tangram plan recipes/quickstart.lua --parallelizer process \
        --set 'parallelizer.options.command=python3 recipes/process_adapter.py'

A question a line on standard input, an answer a line on standard output (docs/process-adapter.md). What is printed to
standard error is shown to the user. The figures are rough: replace `price` by those of your own planner.
"""
import json
import sys

UTILISATION = 0.4  # of the GPU's peak
STATE_BYTES = 18  # a parameter's weight, gradient and optimizer states


def price(question, dp, tp):
    """Times and bytes of the whole slice as one stage."""
    piece, island, training = question["slice"], question["island"], question["training"]
    model, atoms = question["model"], piece["atoms"]
    tokens = question["samples"] // dp * training["seq_len"]
    flops = sum(atom["flops"] for atom in atoms) * question["samples"] / (dp * tp)
    parameters = sum(atom["parameters"] for atom in atoms) / tp
    rate = min(bytes_per_s for _, bytes_per_s in island["intra"])
    activation_bytes = 2 * tokens * model["hidden"]
    traffic_s = 2 * piece["layers"] * 2 * (tp - 1) / tp * activation_bytes / rate
    compute_s = flops / (UTILISATION * island["compute_flops"])
    return {
        "atoms": len(atoms), "gpus": dp * tp, "strategy": {"dp": dp, "tp": tp},
        "forward_s": compute_s + traffic_s, "backward_s": 2 * compute_s + traffic_s,
        "sync_s": 2 * (dp - 1) / dp * 4 * parameters / rate,
        "static_bytes": STATE_BYTES * parameters + 2e9,
        "inflight_bytes": (17 * max(1, piece["layers"]) + 2) * activation_bytes / tp,
        "transient_bytes": 4 * tokens * model["vocab"] / tp if piece["has_head"] else 0.0,
    }


def fits(question, stage):
    inflight = min(question["successors"] + 1, question["microbatches"])
    needed = stage["static_bytes"] + inflight * stage["inflight_bytes"] + stage["transient_bytes"]
    return needed <= question["capacity_bytes"]


def answer(question):
    if question["op"] != "plan":
        return {"why": f"this program does not know op {question['op']}"}
    island = question["island"]
    candidates = []
    for tp in (1, 2, 4, 8):
        if island["gpus_per_node"] % tp == 0 and question["samples"] % (island["gpus"] // tp) == 0:
            stage = price(question, island["gpus"] // tp, tp)
            if fits(question, stage):
                candidates.append({"stages": [stage]})
    return {"candidates": candidates} if candidates else {"why": "no degree of tensor parallelism fits"}


for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"id": asked["id"], **answer(asked)}), flush=True)
