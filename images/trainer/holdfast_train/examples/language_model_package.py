"""The language model as a package: its problem, and its weights under the names of Hugging Face.

holdfast-train package PREFIX model --problem holdfast_train.examples.language_model_package:problem

It is built like a Llama, so `AutoModelForCausalLM.from_pretrained("model/safetensors")` opens it.
"""

import argparse
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from holdfast_model import package as packages
from holdfast_train.examples.byte_data import VOCABULARY, ByteData, build
from holdfast_train.examples.language_model import LanguageModel, Shape, parse


def problem(*arguments: str) -> packages.Problem:
    """For `holdfast-train package`. `arguments`: the options of the training that say how large the model is."""
    options = parse(arguments)
    shape = shape_of(options)
    data = ByteData(build(options.data), length=shape.context, batch=8, seed=options.seed)
    windows = [data.batch(number) for number in range(10)]

    def measure(model: packages.Call) -> float:
        """The mean loss on text, in nats per byte; negated, because more has to be better."""
        found = []
        for window in windows[:4]:
            logits = torch.from_numpy(np.array(model({"tokens": window[:, :-1]})["logits"]))
            targets = torch.from_numpy(window[:, 1:])
            found.append(torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item())
        return -float(np.mean(found))

    return packages.Problem(
        model=lambda: LanguageModel(shape),
        inputs={"tokens": packages.Tensor("int64", ("batch", "time"))},
        outputs={"logits": packages.Tensor("float32", ("batch", "time", VOCABULARY))},
        dims={"batch": (1, 8), "time": (1, shape.context)},
        examples=[{"tokens": windows[0][:4, : max(2, shape.context // 2)]}],
        calibration=lambda: [{"tokens": window[:, :-1]} for window in windows[4:]],
        score=packages.Score("nats a byte, negated", measure, max_drop=0.01, samples=4 * 8 * shape.context),
        files={"config.json": json.dumps(llama_config(shape), indent=2) + "\n"},
        rename=llama_names,
    )


def shape_of(options: argparse.Namespace) -> Shape:
    """The size of the model that these options train."""
    return Shape(options.dim, options.layers, options.heads, options.context)


def llama_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors under the names of Llama, which has three maps in place of `qkv`, and two in place of `gate_up`."""
    made = {"model.embed_tokens.weight": state["embedding.weight"], "model.norm.weight": state["norm.weight"]}
    for number in range(sum(name.endswith("qkv.weight") for name in state)):
        ours, theirs = f"blocks.{number}.", f"model.layers.{number}."
        for name, part in zip("qkv", state[f"{ours}attention.qkv.weight"].chunk(3), strict=True):
            made[f"{theirs}self_attn.{name}_proj.weight"] = part
        for name, part in zip(("gate", "up"), state[f"{ours}feed.gate_up.weight"].chunk(2), strict=True):
            made[f"{theirs}mlp.{name}_proj.weight"] = part
        for name, other in (
            ("attention.out", "self_attn.o_proj"), ("feed.down", "mlp.down_proj"),
            ("attention_norm", "input_layernorm"), ("feed_norm", "post_attention_layernorm"),
        ):  # fmt: skip
            made[f"{theirs}{other}.weight"] = state[f"{ours}{name}.weight"]
    return made


def llama_config(shape: Shape) -> dict[str, Any]:
    """config.json of Hugging Face Transformers."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": shape.dim,
        "intermediate_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": torch.finfo(torch.float32).eps,  # what nn.RMSNorm takes by default
        "rope_theta": 10_000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": None,
        "dtype": "float32",
    }
