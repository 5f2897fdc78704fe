"""Families of models by the `model_type` of their `config.json`.

What the experts compute is read from the modeling classes of Hugging Face transformers 4.57 and
5.24 (and of vLLM for models that bring their own class); the fields from the configuration classes.
"""

from __future__ import annotations

from hpmoe_ir.frontends.families.common import NO_DROP, SWIGLU
from hpmoe_ir.frontends.families.family import SPELLED_SILU, Assumed, Family, Note, Rule

_SOFTMAX = "router: softmax of all experts, then the top k"
_SOFTMAX_OF_TOP = "router: softmax of the chosen"
_SHARED_GATED = "the shared expert has a sigmoid gate"

_DEEPSEEK_EXPERTS = ("n_routed_experts", "num_local_experts")
_MIXTRAL_EXPERTS = ("num_local_experts", "num_experts")
_SHARED_LISTS = ("num_experts", "num_local_experts")

FAMILIES: tuple[Family, ...] = (
    Family(
        "mixtral",
        "Mixtral 8x7B, 8x22B",
        experts=_MIXTRAL_EXPERTS,
        width=("intermediate_size",),
        architectures=("Mixtral",),
        facts=(_SOFTMAX_OF_TOP,),
    ),
    Family(
        "qwen2_moe",
        "Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B",
        experts=("num_experts",),
        architectures=("Qwen2Moe",),
        facts=(_SOFTMAX, _SHARED_GATED),
        outside=("intermediate_size",),
        assumed=(Assumed("shared_expert_intermediate_size", 5632),),
    ),
    Family(
        "qwen3_moe",
        "Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder",
        experts=_SHARED_LISTS,
        architectures=("Qwen3Moe",),
        facts=(_SOFTMAX,),
        outside=("intermediate_size",),
    ),
    Family(
        "qwen3_vl_moe",
        "Qwen3-VL-30B-A3B, Qwen3-VL-235B-A22B",
        experts=_SHARED_LISTS,
        model_types=("qwen3_vl_moe_text",),
        architectures=("Qwen3VLMoe",),
        facts=(_SOFTMAX,),
        outside=("intermediate_size",),
    ),
    Family(
        "qwen3_next",
        "Qwen3-Next-80B-A3B",
        experts=("num_experts",),
        architectures=("Qwen3Next",),
        facts=(_SOFTMAX, _SHARED_GATED),
        outside=("intermediate_size",),
        assumed=(Assumed("shared_expert_intermediate_size", 512),),
    ),
    Family(
        "qwen3_5_moe",
        "Qwen3.5-397B-A17B",
        experts=("num_experts",),
        model_types=("qwen3_5_moe_text",),
        architectures=("Qwen3_5Moe",),
        facts=(_SOFTMAX, _SHARED_GATED),
        outside=("intermediate_size",),
        assumed=(Assumed("shared_expert_intermediate_size", 512),),
    ),
    Family(
        "deepseek_v2",
        "DeepSeek-V2, V2-Lite",
        experts=_DEEPSEEK_EXPERTS,
        architectures=("DeepseekV2",),
        outside=("intermediate_size",),
        assumed=(Assumed("n_shared_experts", 2),),
    ),
    Family(
        "deepseek_v3",
        "DeepSeek-V3, V3.1, R1, Moonlight, Kimi-K2, V3.2",
        experts=_DEEPSEEK_EXPERTS,
        model_types=("kimi_k2", "deepseek_v32"),
        architectures=("DeepseekV3", "DeepseekV32"),
        outside=("intermediate_size",),
        assumed=(
            Assumed("n_shared_experts", 1),
            Assumed("first_k_dense_replace", 3),
        ),
    ),
    Family(
        "glm4_moe",
        "GLM-4.5, GLM-4.5-Air, GLM-4.6, GLM-4.7",
        experts=_DEEPSEEK_EXPERTS,
        model_types=(
            "glm4v_moe",
            "glm4v_moe_text",
            "Glm4vMoe_text",
            "glm4_moe_lite",
            "glm_moe_dsa",
        ),
        architectures=("Glm4Moe", "Glm4vMoe", "Glm4MoeLite", "GlmMoeDsa"),
        facts=("router: sigmoid",),
        outside=("intermediate_size",),
        assumed=(
            Assumed("n_shared_experts", 1),
            Assumed("first_k_dense_replace", 1),
        ),
    ),
    Family(
        "dots1",
        "dots.llm1",
        experts=_DEEPSEEK_EXPERTS,
        architectures=("Dots1",),
        outside=("intermediate_size",),
    ),
    Family(
        "bailing_moe",
        "Ling-lite, Ling-plus, Ling-2.0, Ring",
        experts=("num_experts",),
        model_types=("bailing_moe_v2",),
        architectures=("BailingMoe", "BailingMoeV2"),
        outside=("intermediate_size",),
    ),
    Family(
        "minimax_text_01",
        "MiniMax-Text-01, MiniMax-M1",
        experts=_MIXTRAL_EXPERTS,
        width=("intermediate_size",),
        model_types=("minimax", "minimax_m1"),
        architectures=("MiniMaxText01", "MiniMaxM1", "MiniMax"),
        facts=(_SOFTMAX_OF_TOP,),
    ),
    Family(
        "minimax_m2",
        "MiniMax-M2",
        experts=_MIXTRAL_EXPERTS,
        width=("intermediate_size",),
        architectures=("MiniMaxM2",),
    ),
    Family(
        "dbrx",
        "DBRX",
        hidden=("d_model", "hidden_size", "ffn_config.hidden_size"),
        experts=("ffn_config.moe_num_experts",),
        top_k=("ffn_config.moe_top_k",),
        width=("ffn_config.ffn_hidden_size",),
        section="ffn_config",
        architectures=("Dbrx",),
        facts=(_SOFTMAX,),
        rules=(
            Rule("ffn_config.ffn_act_fn.name", SWIGLU, SPELLED_SILU, "silu"),
            Rule("ffn_config.uniform_expert_assignment", NO_DROP, (False, None)),
            Rule("ffn_config.top_k", "the default of sampling", (None, 50)),
        ),
        notes=(
            Note("ffn_config.moe_normalize_expert_weights", "router normalises by the p-norm, p"),
            Note("ffn_config.moe_jitter_eps", "router is noisy in training", (None, 0)),
        ),
        outside=("ffn_config.moe_loss_weight",),
    ),
    Family(
        "jamba",
        "Jamba-v0.1, Jamba-1.5, 1.6",
        experts=_SHARED_LISTS,
        width=("intermediate_size",),
        architectures=("Jamba",),
        facts=(_SOFTMAX,),
    ),
    Family(
        "phimoe",
        "Phi-3.5-MoE, Phi-tiny-MoE, Phi-mini-MoE",
        experts=_MIXTRAL_EXPERTS,
        width=("intermediate_size",),
        architectures=("PhiMoE", "Phimoe"),
        facts=("router: SparseMixer",),
    ),
    Family(
        "olmoe",
        "OLMoE-1B-7B",
        experts=_SHARED_LISTS,
        width=("intermediate_size",),
        architectures=("Olmoe",),
        facts=(_SOFTMAX,),
    ),
    Family(
        "flex_olmo",
        "FlexOlmo-7x7B",
        experts=_SHARED_LISTS,
        width=("intermediate_size",),
        architectures=("FlexOlmo",),
        facts=(_SOFTMAX,),
    ),
    Family(
        "granitemoe",
        "Granite-3.0 and 3.1 MoE",
        experts=_MIXTRAL_EXPERTS,
        width=("intermediate_size",),
        model_types=("granitemoeshared",),
        architectures=("GraniteMoe", "GraniteMoeShared"),
        facts=(_SOFTMAX_OF_TOP,),
    ),
    Family(
        "granitemoehybrid",
        "Granite-4.0-H",
        experts=_MIXTRAL_EXPERTS,
        width=("intermediate_size",),
        architectures=("GraniteMoeHybrid",),
        facts=(_SOFTMAX_OF_TOP,),
        assumed=(Assumed("shared_intermediate_size", 1024),),
    ),
    Family(
        "ernie4_5_moe",
        "ERNIE-4.5-21B-A3B, 300B-A47B",
        experts=("moe_num_experts", "num_experts"),
        top_k=("moe_k", "num_experts_per_tok"),
        architectures=("Ernie4_5_Moe",),
        outside=("intermediate_size",),
        assumed=(
            Assumed("moe_num_shared_experts", 2),
            Assumed("moe_layer_start_index", 1),
        ),
    ),
    Family(
        "hunyuan_v1_moe",
        "Hunyuan-A13B, Hunyuan-Large",
        experts=_SHARED_LISTS,
        top_k=("moe_topk", "num_experts_per_tok"),
        other_width="intermediate_size",
        model_types=("hunyuan",),
        architectures=("HunYuanMoEV1", "HunYuan"),
        facts=(_SOFTMAX,),
        outside=(
            "add_classification_head",
            "class_num",
            "dense_list",
            "mask_init_id",
            "moe_random_routing_dropped_token",
            "org_vocab_size",
            "pool_type",
            "use_mixed_mlp_moe",
        ),
    ),
    Family(
        "step3_text",
        "Step-3",
        experts=("moe_num_experts", "n_routed_experts"),
        top_k=("moe_top_k", "num_experts_per_tok"),
        model_types=("step3", "step3_vl"),
        architectures=("Step3Text", "Step3VL"),
        outside=("intermediate_size",),
    ),
    Family(
        "pangu_pro_moe",
        "Pangu Pro MoE",
        experts=("num_experts",),
        model_types=("PanguProMoE",),
        architectures=("PanguProMoE",),
        facts=("router: the best expert of each of 8 groups", _SOFTMAX),
        outside=("intermediate_size",),
    ),
    Family(
        "llada_moe",
        "LLaDA-MoE-7B-A1B",
        experts=("num_experts",),
        width=("expert_intermediate_size",),
        model_types=("llada",),
        architectures=("LLaDAMoEModelLM", "LLaDAMoE"),
        facts=(_SOFTMAX,),
        outside=("dense_intermediate_size", "intermediate_size"),
    ),
    Family(
        "jetmoe",
        "JetMoE-8B",
        experts=("num_local_experts",),
        width=("intermediate_size", "ffn_hidden_size"),
        architectures=("JetMoe", "JetMoE"),
        facts=(
            _SOFTMAX_OF_TOP,
            "a bias is added to the layer's result",
            "attention has experts of its own",
        ),
        rules=(Rule("activation_function", SWIGLU, SPELLED_SILU, "silu"),),
    ),
    Family(
        "kimi_linear",
        "Kimi-Linear-48B-A3B",
        experts=("num_experts", "num_local_experts"),
        top_k=("num_experts_per_token", "num_experts_per_tok"),
        architectures=("KimiLinear",),
        outside=("intermediate_size",),
        assumed=(Assumed("num_shared_experts", 1),),
    ),
    Family(
        "lfm2_moe",
        "LFM2-8B-A1B",
        experts=("num_experts",),
        architectures=("Lfm2Moe",),
        facts=("router: sigmoid",),
        outside=("intermediate_size",),
    ),
    Family(
        "arctic",
        "Snowflake Arctic",
        experts=("num_local_experts",),
        width=("intermediate_size",),
        architectures=("Arctic",),
        facts=(_SOFTMAX, "a dense layer runs beside the experts"),
        # The configuration class drops tokens unless the file says otherwise.
        rules=(Rule("moe_token_dropping", NO_DROP, (False,), True),),
        outside=(
            "enable_expert_tensor_parallelism",
            "moe_eval_capacity_factor",
            "moe_min_capacity",
            "moe_train_capacity_factor",
            "parallel_attn_mlp_res",
            "use_residual",
        ),
    ),
    Family(
        "llama4",
        "Llama 4 Scout, Maverick",
        model_types=("llama4_text",),
        architectures=("Llama4",),
        refusal="router weights multiply the tokens, the layer's the experts' results",
    ),
    Family(
        "gpt_oss",
        "gpt-oss-20b, gpt-oss-120b",
        architectures=("GptOss",),
        # down((clamp(up) + 1) * gate * sigmoid(1.702 * gate)), with gate clamped from above.
        refusal="experts have biases and a clamped SwiGLU, the layer's have neither",
    ),
    Family(
        "deepseek_v4",
        "DeepSeek-V4",
        model_types=("deepseek_v41",),
        architectures=("DeepseekV4",),
        refusal="experts clamp gate and up before SwiGLU, the layer's don't",
    ),
    Family(
        "nemotron_h",
        "Nemotron-3-Nano",
        architectures=("NemotronH",),
        refusal="experts are down(relu(up(x))^2) without a gate, the layer's are SwiGLU",
    ),
    Family(
        "grok-1",
        "Grok-1, Grok-2",
        model_types=("grok_1", "grok1"),
        architectures=("Grok1",),
        refusal="experts apply GELU to the gate, the layer's apply SiLU",
    ),
    Family(
        "longcat_flash",
        "LongCat-Flash",
        model_types=("longcat",),
        architectures=("LongcatFlash",),
        refusal="some experts return the token as it is, the layer's all have weights",
    ),
    Family(
        "switch_transformers",
        "Switch Transformers",
        architectures=("SwitchTransformers",),
        refusal="experts have no gate and drop tokens, the layer's do neither",
    ),
    Family(
        "nllb-moe",
        "NLLB-MoE",
        architectures=("NllbMoe",),
        refusal="experts have biases and no gate and drop tokens, the layer's do neither",
    ),
    Family(
        "ernie4_5_vl_moe",
        "ERNIE-4.5-VL",
        model_types=("ernie4_5_moe_vl", "ernie4_5_vl_moe_text"),
        architectures=("Ernie4_5_VLMoe", "Ernie4_5_VLMoeFor"),
        refusal="experts are of two widths, for text and for images, the layer's of one",
    ),
)
"""All known families, those that can be imported first."""


def family_of(model_type: str) -> Family | None:
    """Returns the family of a `model_type`, None for one that isn't known."""
    for family in FAMILIES:
        if model_type in (family.name, *family.model_types):
            return family
    return None


def families_with(architecture: str) -> list[Family]:
    """Returns the families with a class of `architectures`, such as `MixtralForCausalLM`."""
    return [family for family in FAMILIES if family.has_class(architecture)]
