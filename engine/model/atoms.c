#include <inttypes.h>

#include "model/model.h"

/* One half of a layer, or an end of the model. */
typedef struct {
    int64_t parameters, expert_parameters;
    double flops; /* forward, one sample */
    uint64_t hash;
} part;

static uint64_t hash_numbers(uint64_t hash, const int64_t *numbers, size_t count)
{
    return tg_hash_bytes(hash, numbers, count * sizeof *numbers);
}

#define HASH(...)                                                                                                      \
    hash_numbers(TG_HASH_START, (const int64_t[]){__VA_ARGS__}, sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t))

/* Pairs of tokens that a causal query and its key make in one sample, the square counted by half. */
static double attended_pairs(const tg_model_dims *d, int64_t seq_len, tg_attention_kind kind)
{
    double s = (double)seq_len, w = (double)d->window;
    return kind == TG_ATTENTION_SLIDING && w < s ? w * s - w * w / 2 : s * s / 2;
}

static part attention_part(const tg_model_dims *d, int64_t seq_len, int64_t layer)
{
    tg_attention_kind kind = d->layer_attention[layer];
    int64_t h = d->hidden, q = d->heads * d->head_dim, kv = d->kv_heads * d->head_dim;
    int64_t weights = 2 * h * q + 2 * h * kv, bias = q + 2 * kv + h, norms = d->norm_parameters * h;
    int64_t core = 2 * q; /* multiplications for one pair: scores, then values */
    const tg_mla *m = &d->mla;
    if (d->has_mla) {
        int64_t qk = m->qk_nope_head_dim + m->qk_rope_head_dim, value = m->v_head_dim;
        int64_t rank = m->q_lora_rank, latent = m->kv_lora_rank;
        weights = (rank ? rank * (h + d->heads * qk) : h * d->heads * qk) + h * (latent + m->qk_rope_head_dim) +
                  latent * d->heads * (m->qk_nope_head_dim + value) + d->heads * value * h;
        bias = rank + latent + m->qk_rope_head_dim + h;
        norms += rank + latent;
        core = d->heads * (qk + value);
    }
    int64_t window = kind == TG_ATTENTION_SLIDING ? d->window : 0;
    part p = {.parameters = weights + norms + (d->bias ? bias : 0)};
    p.flops = 2 * (double)weights * (double)seq_len + 2 * (double)core * attended_pairs(d, seq_len, kind);
    p.hash = HASH(TG_ATOM_ATTENTION, seq_len, h, d->heads, d->kv_heads, d->head_dim, d->norm_parameters, d->bias, kind,
                  window, d->has_mla);
    if (d->has_mla)
        p.hash = hash_numbers(p.hash, (const int64_t *)(const void *)m, sizeof *m / sizeof(int64_t));
    return p;
}

static part mlp_part(const tg_model_dims *d, int64_t seq_len, int64_t layer)
{
    tg_mlp_kind kind = d->layer_mlp[layer];
    int64_t h = d->hidden, inner = d->gated ? 2 : 1; /* matrices that lead to the ffn width; one leads back */
    int64_t weights = (inner + 1) * h * d->ffn, bias = inner * d->ffn + h, experts = 0, active = weights;
    if (kind == TG_MLP_MOE) {
        int64_t expert = (inner + 1) * h * d->expert_ffn, shared = (inner + 1) * h * d->shared_expert_ffn;
        int64_t expert_bias = d->bias ? inner * d->expert_ffn + h : 0;
        int64_t shared_bias = d->shared_expert_ffn ? inner * d->shared_expert_ffn + h : 0;
        experts = d->experts * (expert + expert_bias);
        weights = shared + h * d->experts;
        bias = shared_bias + d->experts;
        active = d->experts_per_token * expert + weights;
    }
    part p = {.parameters = experts + weights + d->norm_parameters * h + (d->bias ? bias : 0),
              .expert_parameters = experts};
    p.flops = 2 * (double)active * (double)seq_len;
    p.hash = HASH(TG_ATOM_MLP, seq_len, h, d->gated, d->norm_parameters, d->bias, kind);
    const int64_t dense[] = {d->ffn}, moe[] = {d->experts, d->experts_per_token, d->expert_ffn, d->shared_expert_ffn};
    p.hash = kind == TG_MLP_MOE ? hash_numbers(p.hash, moe, 4) : hash_numbers(p.hash, dense, 1);
    return p;
}

static part embedding_part(const tg_model_dims *d, int64_t seq_len)
{
    return (part){.parameters = (d->vocab + d->positions) * d->hidden,
                  .hash = HASH(TG_ATOM_EMBEDDING, seq_len, d->hidden, d->vocab, d->positions, d->tied)};
}

static part head_part(const tg_model_dims *d, int64_t seq_len)
{
    int64_t weights = d->vocab * d->hidden;
    return (part){.parameters = weights + d->norm_parameters * d->hidden,
                  .flops = 2 * (double)weights * (double)seq_len,
                  .hash = HASH(TG_ATOM_HEAD, seq_len, d->hidden, d->vocab, d->norm_parameters, d->tied)};
}

int64_t tg_model_parameters(const tg_model_dims *dims, int64_t *active)
{
    int64_t total = embedding_part(dims, 1).parameters + head_part(dims, 1).parameters, asleep = 0;
    if (dims->tied)
        total -= dims->vocab * dims->hidden;
    for (int64_t i = 0; i < dims->layers; i++) {
        part mlp = mlp_part(dims, 1, i);
        total += attention_part(dims, 1, i).parameters + mlp.parameters;
        if (mlp.expert_parameters)
            asleep += mlp.expert_parameters / dims->experts * (dims->experts - dims->experts_per_token);
    }
    if (active)
        *active = total - asleep;
    return total;
}

double tg_model_flops(const tg_model_dims *dims, int64_t seq_len)
{
    double forward = head_part(dims, seq_len).flops;
    for (int64_t i = 0; i < dims->layers; i++)
        forward += attention_part(dims, seq_len, i).flops + mlp_part(dims, seq_len, i).flops;
    return 3 * forward;
}

static tg_atom atom_of(tg_atom_kind kind, part p, double boundary_bytes)
{
    return (tg_atom){.kind = kind,
                     .parameters = p.parameters,
                     .expert_parameters = p.expert_parameters,
                     .forward_flops = p.flops,
                     .boundary_bytes = boundary_bytes,
                     .hash = p.hash};
}

/* Appends the atoms of layer i (from 0) and gives their number. */
static size_t add_layer(const tg_model_dims *d, int64_t seq_len, tg_granularity granularity, int64_t i,
                        double boundary_bytes, tg_atom *at)
{
    part attention = attention_part(d, seq_len, i), mlp = mlp_part(d, seq_len, i);
    size_t count = granularity == TG_GRANULARITY_HALF ? 2 : 1;
    if (granularity == TG_GRANULARITY_HALF) {
        at[0] = atom_of(TG_ATOM_ATTENTION, attention, boundary_bytes);
        at[1] = atom_of(TG_ATOM_MLP, mlp, boundary_bytes);
    } else {
        part layer = {.parameters = attention.parameters + mlp.parameters,
                      .expert_parameters = mlp.expert_parameters,
                      .flops = attention.flops + mlp.flops,
                      .hash = HASH(TG_ATOM_LAYER, (int64_t)attention.hash, (int64_t)mlp.hash)};
        at[0] = atom_of(TG_ATOM_LAYER, layer, boundary_bytes);
    }
    at[0].attention = d->layer_attention[i];
    at[count - 1].mlp = d->layer_mlp[i];
    at[0].layer = at[count - 1].layer = i + 1;
    return count;
}

tg_status tg_model_atoms(tg_arena *arena, const tg_model_dims *dims, int64_t seq_len, tg_granularity granularity,
                         tg_atoms *out, tg_error *err)
{
    tg_status status = tg_model_check(dims, err);
    if (status != TG_OK)
        return status;
    if (seq_len < 1 || seq_len > TG_MAX_SEQ_LEN)
        return tg_fail(err, TG_EINPUT, "seq_len: got %" PRId64 ", expected a whole number from 1 to %d", seq_len,
                       TG_MAX_SEQ_LEN);
    if (dims->positions && seq_len > dims->positions)
        return tg_fail(err, TG_EINPUT,
                       "seq_len: got %" PRId64 ", expected at most the model's %" PRId64 " learned positions", seq_len,
                       dims->positions);
    size_t a_layer = granularity == TG_GRANULARITY_HALF ? 2 : 1;
    out->at = tg_arena_alloc(arena, 2 + a_layer * (size_t)dims->layers, sizeof *out->at);
    if (!out->at)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    double boundary_bytes = 2 * (double)seq_len * (double)dims->hidden;
    out->count = 0;
    out->at[out->count++] = atom_of(TG_ATOM_EMBEDDING, embedding_part(dims, seq_len), boundary_bytes);
    for (int64_t i = 0; i < dims->layers; i++)
        out->count += add_layer(dims, seq_len, granularity, i, boundary_bytes, out->at + out->count);
    out->at[out->count++] = atom_of(TG_ATOM_HEAD, head_part(dims, seq_len), 0);
    return TG_OK;
}
