"""The fields of MindFormers training files, which are the same for all of its models.

Sources: `COMMON_CONFIG_MAPPING` in `transformer_config_utils.py` and the configuration classes of
MindFormers 2.1.0; `MoEConfig` and `LlamaConfig` of 1.3.2 for files with `moe_config`.
"""

from __future__ import annotations

from dataclasses import replace

from hpmoe_ir.frontends.config_text import Fields
from hpmoe_ir.frontends.families.common import NO_BIAS, SWIGLU
from hpmoe_ir.frontends.families.family import SPELLED_SILU, Assumed, Family, Rule
from hpmoe_ir.frontends.presets import PRESETS

_ACTIVATIONS = (*SPELLED_SILU, "fusedswiglu")

_OUTSIDE = tuple(
    # Not about the experts: attention, positions, precision, parallelism, recomputation.
    """
    add_qkv_bias apply_dsa_kernel_fusion apply_query_key_layer_scaling
    apply_residual_connection_post_layernorm apply_rope_fusion attention_softmax_in_fp32
    attn_allgather attn_allreduce attn_reduce_scatter batch_size bias_dropout_fusion
    bias_swiglu_fusion calculate_per_token_loss checkpoint_name_or_path compute_dtype
    context_parallel context_parallel_algo context_parallel_size cp_comm_type cpu_offloading
    cpu_offloading_num_layers data_parallel data_parallel_size default_prefetch
    disable_lazy_inline embedding_init_type experimental_attention_variant extend_method factor
    ffn_concat fine_grain_interleave fp16_lm_cross_entropy fused_norm fused_rms_norm
    gradient_aggregation_group hierarchical_context_parallel_sizes ignore_token_id init_method
    init_method_std input_layout input_sliced_sig is_dynamic is_sample_acceleration layer_swap
    layernorm_compute_dtype layernorm_compute_type llm_backend mask_func_type max_decode_length
    max_position_embedding micro_batch_num mindformers_version mla_qkv_concat model_architecture
    model_parallel monitor_config mp_comm_recompute mscale mscale_all_dim mtp_depth
    mtp_loss_factor multi_latent_attention nope_layer_interval normalization npu_nums_per_device
    num_blocks num_decoder_layers num_encoder_layers num_query_groups offset op_swap
    output_layer_init_method parallel_config parallel_optimizer
    parallel_optimizer_comm_recompute param_init_std_rules param_init_type params_dtype
    pet_config pipeline_model_parallel_size pipeline_stage post_process pp_interleave_num
    pre_process print_separate_loss qk_pos_emb_head_dim qkv_concat qkv_has_bias quant_config
    recompute recompute_slice_activation return_extra_loss rl_config rotary_cos_format
    rotary_dtype rotary_interleaved rotary_percent rotary_scaling_factor
    rotary_seq_len_interpolation_factor scaling_factor select_comm_recompute
    select_comm_recompute_exclude select_recompute select_recompute_exclude seq_split_num
    sequence_parallel softmax_compute_dtype softmax_compute_type softmax_scale sparse_mode swap
    tensor_model_parallel_size theta track_max_attention_logit type ulysses_degree_in_cp
    untie_embeddings_and_output_weights use_alibi_mask use_attention_mask
    use_attn_mask_compression use_contiguous_weight_layout_attention
    use_eod_attn_mask_compression use_eod_reset use_flash_attention use_fused_mla use_fused_rope
    use_past use_ring_attention use_rope_scaling use_rope_slice use_rotary_position_ids
    use_seq_parallel virtual_pipeline_model_parallel_size vocab_emb_dp window_attn_skip_freq
    window_size dataset_config top_p top_k
    """
    # How experts are computed, their weights laid out and rows moved, which changes no result.
    """
    comp_comm_parallel comp_comm_parallel_degree dispatch_global_max_bs enable_expert_relocation
    enable_gmm_safe_tokens expert_model_parallel expert_model_parallel_size expert_parallel
    expert_relocation_freq expert_relocation_initial_iteration expert_tensor_parallel_size
    ffn_allgather ffn_allreduce ffn_reduce_scatter group_wise_a2a moe_grouped_gemm
    moe_permute_fusion moe_token_dispatcher_type use_alltoall use_fused_ops_permute
    use_fused_swiglu use_gmm use_interleaved_weight_layout_mlp use_pad_tokens
    """
    # How a router is trained and computed; which tokens would be dropped if there were a capacity.
    """
    aux_loss_factor aux_loss_factors aux_loss_types callback_moe_droprate coeff enable_sdrop
    max_router_load moe_router_force_expert_balance moe_router_fusion moe_router_pre_softmax
    moe_token_drop_policy print_expert_load router_dense_type save_token_distribution
    topk_bias_update_rate use_fused_ops_topkrouter z_loss_factor
    """.split()
)

_MINDFORMERS = Family(
    "mindformers",
    "DeepSeek-V3, Qwen3-MoE, GLM-4.5 and TeleChat3-MoE in MindFormers",
    experts=("expert_num", "n_routed_experts", "num_experts", "num_moe_experts"),
    top_k=("num_experts_chosen", "num_experts_per_tok", "moe_router_topk"),
    width=("moe_intermediate_size", "moe_ffn_hidden_size"),
    rules=(Rule("hidden_act", SWIGLU, _ACTIVATIONS, "silu"),),
    outside=("intermediate_size", "ffn_hidden_size", *_OUTSIDE),
)

_OTHER_RULES = (
    Rule("hidden_act", SWIGLU, _ACTIVATIONS, "gelu"),
    Rule("gated_linear_unit", SWIGLU, (True,), False),
    Rule("add_bias_linear", NO_BIAS, (False,), True),
)
"""The defaults of `TransformerConfig`, for models whose class in MindFormers isn't known."""

_LLAMA = replace(
    _MINDFORMERS,
    models="Mixtral in MindFormers to 1.6",
    width=("intermediate_size", "moe_intermediate_size"),
    # Both are for files without the field intermediate_size.
    outside=("ffn_dim_multiplier", "ffn_hidden_size", "multiple_of", *_OUTSIDE),
)


_SWIGLU_MODELS = {
    "deepseek_v3": "DeepseekV3",
    "deepseek_mtp": "DeepseekV3",
    "qwen3_moe": "Qwen3Moe",
    "glm4_moe": "Glm4Moe",
    "telechat3_moe": "TeleChat3Moe",
}
"""Models whose class in MindFormers gives SwiGLU experts without biases, with that class."""

_CAPACITY = (
    "MindFormers drops tokens by default (capacity factor 1.1 of MoEConfig); the layer drops none"
)


def mindformers_family(fields: Fields, base: Family | None, legacy: bool) -> Family | str:
    """Returns the entry of a MindFormers file, or why there is none.

    `base` is the family of the `config.json` that the file is based on, or that the user gives.
    `legacy` says whether the file has `moe_config`, as those for releases to 1.6 have.
    """
    if base is not None:
        return _with_base(base)
    if legacy:
        kind = fields.get("type")
        if kind != "LlamaConfig":
            return (
                f"model.model_config.type: expected LlamaConfig beside moe_config, found {kind}; "
                "if the experts compute what those of a known family do, --family NAME"
            )
        return replace(_LLAMA, facts=() if "capacity_factor" in fields else (_CAPACITY,))
    kind = fields.get("model_type")
    if kind == "deepseek_v4":
        return replace(
            _MINDFORMERS,
            name="deepseek_v4",
            refusal="experts clamp gate and up before SwiGLU, the layer's don't",
        )
    if kind not in _SWIGLU_MODELS:
        return replace(_MINDFORMERS, rules=_OTHER_RULES)
    assumed = () if kind == "qwen3_moe" else (Assumed(_shared_experts(fields), 1),)
    preset = {"deepseek_v3": "deepseek-v3", "qwen3_moe": "qwen3-30b-a3b"}.get(str(kind))
    return replace(
        _MINDFORMERS,
        name=str(kind),
        architectures=(_SWIGLU_MODELS[str(kind)],),
        assumed=assumed,
        defaults=None if preset is None else PRESETS[preset],
    )


def _shared_experts(fields: Fields) -> str:
    """Returns the field of the number of shared experts, which has two names."""
    return "shared_expert_num" if "shared_expert_num" in fields else "n_shared_experts"


def _with_base(base: Family) -> Family:
    """Returns the entry of a file with the fields of MindFormers and of a family."""
    own = _MINDFORMERS
    width = base.width + tuple(name for name in own.width if name not in base.width)
    size_fields = {*width, base.other_width}
    return replace(
        base,
        hidden=tuple(dict.fromkeys((*base.hidden, *own.hidden))),
        experts=tuple(dict.fromkeys((*base.experts, *own.experts))),
        top_k=tuple(dict.fromkeys((*base.top_k, *own.top_k))),
        width=width,
        rules=(*own.rules, *base.rules),
        outside=(*base.outside, *(name for name in own.outside if name not in size_fields)),
    )
