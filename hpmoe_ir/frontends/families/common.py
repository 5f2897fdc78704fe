"""Fields that mean the same in the files of all families.

Sources: the configuration classes of Hugging Face transformers 4.57 and 5.24, and the classes that
models bring along. A rule also names fields that a family doesn't have but that others use for what
changes an expert: written with their neutral value they are accepted, with any other refused.
"""

from __future__ import annotations

from hpmoe_ir.frontends.families.family import SPELLED_SILU, CapacityRule, Note, Rule

NO_BIAS = "experts have no biases"
NO_CLAMP = "experts don't clamp"
SWIGLU = "experts are SwiGLU"
NO_DROP = "no token is dropped"
WEIGHTS_AFTER = "router weights scale the experts' results"
OFF = (False, None)

COMMON_RULES: tuple[Rule, ...] = (
    Rule("hidden_act", SWIGLU, SPELLED_SILU, "silu"),
    *(
        Rule(field, SWIGLU, (*SPELLED_SILU, None))
        for field in (
            "act_fn",
            "activation",
            "activation_fn",
            "activation_func",
            "activation_function",
            "expert_activation",
            "ffn_act",
            "hidden_activation",
            "mlp_activation",
            "mlp_hidden_act",
            "moe_activation",
            "moe_hidden_act",
        )
    ),
    Rule("gated_linear_unit", SWIGLU, (True, None)),
    *(
        Rule(field, NO_BIAS, OFF)
        for field in (
            "add_bias_linear",
            "add_mlp_fc1_bias_linear",
            "add_mlp_fc2_bias_linear",
            "expert_bias",
            "ffn_bias",
            "mlp_bias",
            "moe_bias",
            "moe_mlp_bias",
            "use_bias",
            "use_mlp_bias",
        )
    ),
    *(
        Rule(field, NO_CLAMP, OFF)
        for field in (
            "activation_func_clamp_value",
            "expert_clamp",
            "glu_linear_offset",
            "swiglu_alpha",
            "swiglu_limit",
        )
    ),
    # Step's lists have 0 for a layer without a limit.
    Rule("swiglu_limits", NO_CLAMP, (None, 0)),
    *(
        Rule(field, WEIGHTS_AFTER, OFF)
        for field in (
            "apply_router_weight_on_input",
            "moe_apply_probs_on_input",
            "moe_apply_router_weight_on_input",
        )
    ),
    *(
        Rule(field, NO_DROP, OFF)
        for field in (
            "drop_tokens",
            "enable_token_dropping",
            "moe_drop_tokens",
            "moe_token_dropping",
            "token_dropping",
        )
    ),
    *(
        CapacityRule(field, NO_DROP, (None,))
        for field in (
            "capacity_factor",
            "expert_capacity_factor",
            "moe_capacity",
            "moe_capacity_factor",
            "moe_expert_capacity_factor",
        )
    ),
    *(
        Rule(field, "all experts have weights", (None, 0, False))
        for field in ("n_zero_experts", "num_zero_experts", "zero_expert_num", "zero_expert_type")
    ),
    # Older files have the defaults of text generation.
    Rule("top_k", "the default of sampling", (None, 50)),
    Rule("moe_latent_size", "experts work on whole tokens", (None, 0)),
    Rule("moe_dropout", "experts have no dropout", (None, 0)),
    Rule("expert_dropout", "experts have no dropout", (None, 0)),
)
"""Rules of all families. A family's own rule for a field takes the place of the one here."""

_OFF = (None, False)
_NONE = (None, 0, False)
_ONE = (None, False, 0, 1)

COMMON_NOTES: tuple[Note, ...] = (
    *(
        Note(field, "shared experts", _NONE)
        for field in (
            "moe_num_shared_experts",
            "n_shared_experts",
            "num_shared_expert",
            "num_shared_experts",
            "shared_expert_num",
        )
    ),
    *(
        Note(field, "width of the shared experts", _NONE)
        for field in (
            "moe_shared_expert_intermediate_size",
            "share_expert_dim",
            "share_expert_dims",
            "shared_expert_intermediate_size",
            "shared_intermediate_size",
        )
    ),
    Note("swiglu_limits_shared", "shared experts clamp", _NONE),
    Note("use_shared_expert_gating", "shared experts have a gate", _OFF),
    *(
        Note(field, "dense layers first", _NONE)
        for field in (
            "first_k_dense_replace",
            "moe_layer_num_skipped",
            "moe_layer_start_index",
            "num_dense_layers",
        )
    ),
    *(
        Note(field, "experts in every n-th layer only", _ONE)
        for field in (
            "decoder_sparse_step",
            "expert_layer_period",
            "interleave_moe_layer_step",
            "moe_layer_freq",
            "moe_layer_frequency",
            "moe_layer_interval",
        )
    ),
    Note("expert_layer_offset", "first layer with experts", _NONE),
    Note("mlp_only_layers", "dense layers"),
    Note("mlp_layer_types", "kinds of the layers"),
    Note("moe_layers", "layers with experts"),
    Note("moe_layers_enum", "layers with experts"),
    *(
        Note(field, "router score function")
        for field in (
            "moe_gate_act",
            "moe_router_activation_func",
            "moe_router_score_function",
            "score_func",
            "score_function",
            "scoring_func",
            "moe_router_use_sigmoid",
            "use_gating_sigmoid",
        )
    ),
    *(
        Note(field, "router normalises the weights of a token", (None,))
        for field in ("moe_normalize_expert_weights", "moe_renormalize", "norm_topk_prob")
    ),
    *(
        Note(field, "router scales the weights", (None, False, 1))
        for field in (
            "moe_router_scaling_factor",
            "moe_router_topk_scaling_factor",
            "route_scale",
            "routed_scaling_factor",
            "router_scaling_factor",
        )
    ),
    *(
        Note(field, "router method")
        for field in (
            "moe_gate",
            "routing_policy",
            "topk_method",
            "moe_router_topk_limited_devices",
        )
    ),
    *(
        Note(field, "router has groups of experts", _ONE)
        for field in ("moe_router_num_groups", "n_group", "num_expert_group")
    ),
    *(
        Note(field, "router chooses among groups", _ONE)
        for field in ("moe_router_group_topk", "topk_group")
    ),
    *(
        Note(field, "router adds a bias to choose", _OFF)
        for field in (
            "balance_via_topk_bias",
            "moe_router_enable_expert_bias",
            "moe_use_aux_free",
            "need_correction_bias",
            "router_bias",
            "router_enable_expert_bias",
            "use_expert_bias",
            "use_moe_router_bias",
            "use_router_bias",
            "use_routing_bias",
        )
    ),
    *(
        Note(field, "router is noisy in training", (None, 0))
        for field in ("moe_jitter_eps", "router_jitter_noise")
    ),
    Note("input_jitter_noise", "tokens are noisy in training", (None, 0)),
    Note("moe_n_hash_layers", "layers that route by a table", _NONE),
    Note("num_hash_layers", "layers that route by a table", _NONE),
    Note("residual_multiplier", "scale of the layer's result", (None, 1)),
    Note("quantization_config", "weights are stored quantised"),
    Note("quantization", "weights are stored quantised"),
    Note("compression_config", "weights are stored quantised"),
)
"""Fields about parts outside the experts, with their meaning."""

OUTSIDE = frozenset(
    # The file itself, and how programs handle it.
    """
    architectures attn_implementation auto_map chunk_size_feed_forward dtype
    experts_implementation finetuning_task id2label is_decoder is_encoder_decoder
    keys_to_ignore_at_inference label2id license model_type model_version name_or_path
    num_labels output_attentions output_hidden_states output_past output_router_logits prefix
    problem_type pruned_heads pretraining_tp return_dict task_specific_params tf_legacy_loss
    tie_encoder_decoder tie_word_embeddings tie_embedding tokenizer_class torch_dtype
    torchscript transformers_version unsloth_fixed unsloth_version use_bfloat16 use_cache
    _name_or_path _attn_implementation _attn_implementation_autoset
    _attn_implementation_internal _commit_hash _experts_implementation
    _experts_implementation_internal
    """
    # Sizes of the rest of the model.
    """
    add_cross_attention cross_attention_hidden_size head_dim d_head max_length
    max_position_embeddings max_sequence_length max_seq_len max_window_layers model_max_length
    n_head n_heads n_layer n_layers n_kv_heads n_positions num_attention_groups
    num_attention_heads num_heads num_hidden_layers num_sliding_attention_heads
    num_key_value_heads num_layers num_logits_to_keep original_max_position_embeddings seq_len
    seq_length vocab_size
    """
    # Attention.
    """
    add_full_attention_sink_bias add_swa_attention_sink_bias attention_bias attention_chunk_size
    attention_dropout attention_head_dim attention_multiplier attention_other_setting
    attention_output_multiplier attention_type attention_value_scale attn_config attn_dropout
    attn_pdrop attn_layer_offset attn_layer_period attn_logit_softcapping attn_output_gate
    attn_scale attn_temperature_tuning attn_type_list attn_window_size block_size clip_qkv
    cla_share_factor floor_scale full_attention_interval gate_attention
    global_attn_every_n_layers hybrid_layer_pattern index_head_dim index_n_heads index_topk
    indexer_types indexer_rope_interleave kv_channels kv_lora_rank layer_group_size layer_types
    linear_attn_config linear_conv_kernel_dim linear_head_dim linear_key_head_dim
    linear_num_heads linear_num_key_heads linear_num_value_heads linear_value_head_dim
    linear_attn_alpha_factor linear_attn_beta_factor full_attn_alpha_factor
    full_attn_beta_factor layernorm_full_attention_alpha layernorm_full_attention_beta
    layernorm_linear_attention_alpha layernorm_linear_attention_beta mla_scale_kv_lora
    mla_scale_q_lora no_rope_layer_interval no_rope_layers q_lora_rank qk_head_dim qk_layernorm
    qk_nope_head_dim qk_norm_type qk_rope_head_dim qkv_bias query_pre_attn_scalar share_q_dim
    sliding_window sliding_window_pattern sliding_window_size swa_head_dim
    swa_num_attention_heads swa_num_key_value_heads swa_rope_theta swa_v_head_dim use_cla
    use_linear_silu use_mla use_qk_norm use_qkv_bias use_query_key_norm use_sliding_window
    v_head_dim
    """
    # Positions.
    """
    beta_fast beta_slow max_position_embeddings mrope_section partial_rotary_factor
    position_embedding_type rope_interleave rope_parameters rope_scaling rope_theta rotary
    rotary_base rotary_dim rotary_emb_base rotary_pct use_rotary_pos_emb use_rope
    yarn_rope_theta
    """
    # Embeddings, norms and the head; what happens between layers.
    """
    emb_pdrop embd_pdrop embedding_dropout embedding_multiplier embedding_multiplier_scale
    final_logit_softcapping fp32_residual_connection hidden_dropout hidden_dropout_prob
    initializer_range initializer_std layer_norm_eps layer_norm_epsilon layernorm_epsilon
    lm_head_bias lm_head_multiplier logits_scaling mup_enabled norm_bias norm_eps norm_epsilon
    norm_head norm_softmax norm_type normalization_function output_dropout
    output_multiplier_scale post_norm postnorm layernorm_mlp_alpha layernorm_mlp_beta
    mlp_alpha_factor mlp_beta_factor rescale_prenorm_residual resid_pdrop residual_dropout
    residual_in_fp32 rms_norm_eps rmsnorm_eps sandwich_norm use_rmsnorm weight_init_std
    """
    # State-space and convolution layers.
    """
    chunk_size conv_L_cache conv_bias conv_dim conv_dim_out conv_kernel conv_use_xavier_init
    expand hybrid_override_pattern kda_lower_bound kda_safe_gate layers_block_type
    mamba_chunk_size mamba_conv_bias mamba_d_conv mamba_d_head mamba_d_state mamba_dt_rank
    mamba_expand mamba_head_dim mamba_hidden_act mamba_inner_layernorms mamba_n_groups
    mamba_n_heads mamba_num_heads mamba_proj_bias mamba_ssm_cache_dtype mamba_ssm_dtype
    short_conv_kernel_size ssm_state_size time_step_floor time_step_limit time_step_max
    time_step_min time_step_rank use_associative_scan use_conv_bias use_mamba_kernels
    use_mambapy
    """
    # Prediction of several tokens.
    """
    mtp_layer_types mtp_layers_block_type mtp_loss_scaling_factor mtp_mlp_layer_types
    mtp_num_layers mtp_transformer_layers num_mtp_layers num_mtp_modules
    num_nextn_predict_layers mtp_hybrid_override_pattern mtp_num_hidden_layers
    mtp_use_dedicated_embeddings use_mtp
    """
    # How a router is trained; where its arithmetic is done.
    """
    aux_loss_alpha aux_loss_coef ep_size ignore_layers_for_aux_loss moe_aux_loss_coeff
    moe_loss_weight moe_norm_min moe_router_bias_update_rate moe_router_dtype
    moe_router_load_balancing_type moe_z_loss_coeff multi_gate router_aux_loss_coef router_dtype
    seq_aux moe_layer_end_index moe_shared_expert_overlap enable_moe_fp32_combine
    shared_moe_mode router_z_loss_coef z_loss_weight
    """
    # Generation, and other modalities.
    """
    audio_config bad_words_ids begin_suppress_tokens bos_token_id diversity_penalty do_sample
    early_stopping encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty
    forced_bos_token_id forced_eos_token_id length_penalty min_length no_repeat_ngram_size
    num_beam_groups num_beams num_return_sequences output_scores pad_id pad_token_id
    projector_config remove_invalid_values repetition_penalty top_p projector_bias
    return_dict_in_generate sep_token_id suppress_tokens temperature typical_p vision_config
    """.split()
)
"""Names of fields that don't concern the experts."""

OUTSIDE_ENDINGS = ("_token_id", "_token_ids", "_token_index")
"""Endings of the names of tokens, which never concern the experts."""
