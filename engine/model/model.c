#include "model/model.h"

#include <inttypes.h>

#define FIELD(name, min, max)                                                                                          \
    {                                                                                                                  \
#name, offsetof(tg_model_dims, name), min, max                                                                 \
    }

/* The largest values keep 3 * hidden * expert_ffn * experts * layers, and twice that, below 2^63. */
const tg_model_field tg_model_fields[TG_MODEL_FIELDS] = {
    FIELD(hidden, 1, 1 << 17),
    FIELD(layers, 1, 1000),
    FIELD(heads, 1, 4096),
    FIELD(kv_heads, 1, 4096),
    FIELD(head_dim, 1, 4096),
    FIELD(ffn, 1, 1 << 20),
    FIELD(vocab, 1, 1 << 24),
    FIELD(positions, 0, 1 << 24),
    FIELD(norm_parameters, 0, 2),
    FIELD(experts, 0, 4096),
    FIELD(experts_per_token, 0, 4096),
    FIELD(expert_ffn, 0, 1 << 20),
    FIELD(shared_expert_ffn, 0, 1 << 20),
    FIELD(window, 0, 1 << 24),
    FIELD(mtp_layers, 0, 1000),
};

#define MLA_FIELD(name, min, max)                                                                                      \
    {                                                                                                                  \
#name, offsetof(tg_model_dims, mla.name), min, max                                                             \
    }

const tg_model_field tg_mla_fields[TG_MLA_FIELDS] = {
    MLA_FIELD(q_lora_rank, 0, 1 << 17),   MLA_FIELD(kv_lora_rank, 1, 1 << 17), MLA_FIELD(qk_nope_head_dim, 1, 4096),
    MLA_FIELD(qk_rope_head_dim, 1, 4096), MLA_FIELD(v_head_dim, 1, 4096),
};

static tg_status check_ranges(const tg_model_dims *dims, const tg_model_field *fields, size_t count, tg_error *err)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = *(const int64_t *)(const void *)((const char *)dims + fields[i].offset);
        if (value < fields[i].min || value > fields[i].max)
            return tg_fail(err, TG_EINPUT, "%s: got %" PRId64 ", expected a whole number from %" PRId64 " to %" PRId64,
                           fields[i].name, value, fields[i].min, fields[i].max);
    }
    return TG_OK;
}

static tg_status check_layers(const tg_model_dims *dims, tg_error *err)
{
    bool sliding = false;
    for (int64_t i = 0; i < dims->layers; i++) {
        if (dims->layer_mlp[i] == TG_MLP_MOE && dims->experts == 0)
            return tg_fail(err, TG_EINPUT, "layer_mlp: layer %" PRId64 " is 'moe', but experts is 0", i + 1);
        sliding = sliding || dims->layer_attention[i] == TG_ATTENTION_SLIDING;
    }
    if (sliding && dims->window == 0)
        return tg_fail(err, TG_EINPUT,
                       "window: got 0, expected the window's tokens, as layer_attention has sliding layers");
    return TG_OK;
}

tg_status tg_model_check(const tg_model_dims *dims, tg_error *err)
{
    tg_status status = check_ranges(dims, tg_model_fields, TG_MODEL_FIELDS, err);
    if (status == TG_OK && dims->has_mla)
        status = check_ranges(dims, tg_mla_fields, TG_MLA_FIELDS, err);
    if (status != TG_OK)
        return status;
    if (dims->heads % dims->kv_heads)
        return tg_fail(err, TG_EINPUT, "kv_heads: got %" PRId64 ", expected a divisor of heads = %" PRId64,
                       dims->kv_heads, dims->heads);
    if (dims->experts && (dims->experts_per_token < 1 || dims->experts_per_token > dims->experts))
        return tg_fail(err, TG_EINPUT, "experts_per_token: got %" PRId64 ", expected 1 to experts = %" PRId64,
                       dims->experts_per_token, dims->experts);
    if (dims->experts && dims->expert_ffn < 1)
        return tg_fail(err, TG_EINPUT, "expert_ffn: got 0, expected the width of an expert, as experts = %" PRId64,
                       dims->experts);
    return check_layers(dims, err);
}
