/* A model's dimensions, and its atoms: the parts that are placed on stages (DESIGN.md, section 4). */
#ifndef TG_MODEL_MODEL_H
#define TG_MODEL_MODEL_H

#include "base/base.h"

typedef enum { TG_MLP_NONE, TG_MLP_DENSE, TG_MLP_MOE } tg_mlp_kind;
typedef enum { TG_ATTENTION_NONE, TG_ATTENTION_FULL, TG_ATTENTION_SLIDING } tg_attention_kind;

/* Multi-head latent attention (DeepSeek-V2, section 2.1). */
typedef struct {
    int64_t q_lora_rank; /* 0: queries straight from the hidden state */
    int64_t kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
} tg_mla;

/* A decoder. Widths and counts are of the whole model, before any parallelism or padding of the vocabulary. */
typedef struct {
    int64_t hidden, layers, heads, kv_heads, head_dim;
    int64_t ffn; /* width of a dense MLP */
    int64_t vocab;
    int64_t positions;       /* learned position embeddings; 0: none */
    int64_t norm_parameters; /* of one norm, in units of hidden: 1 RMS norm, 2 layer norm with bias; 0 none */
    int64_t experts;         /* of an MoE layer; 0: the model is dense */
    int64_t experts_per_token, expert_ffn;
    int64_t shared_expert_ffn; /* total width of the experts that see each token; 0: none */
    int64_t window;            /* of sliding attention, tokens; 0: none */
    int64_t mtp_layers;        /* multi-token prediction layers beyond layers; not planned, not counted */
    bool gated;                /* three MLP matrices, not two */
    bool tied;                 /* embedding and head share their weights */
    bool bias;                 /* the linear layers have biases (the head never) */
    bool has_mla;
    tg_mla mla;
    const uint8_t *layer_mlp;       /* layers; tg_mlp_kind, not none */
    const uint8_t *layer_attention; /* layers; tg_attention_kind, not none */
} tg_model_dims;

/* The whole-number fields, with the least and the largest value of each, so that no count below overflows. */
typedef struct {
    const char *name;
    size_t offset; /* in tg_model_dims, an int64_t */
    int64_t min, max;
} tg_model_field;
enum { TG_MODEL_FIELDS = 15, TG_MLA_FIELDS = 5, TG_MAX_SEQ_LEN = 1 << 24 };
extern const tg_model_field tg_model_fields[TG_MODEL_FIELDS];
extern const tg_model_field tg_mla_fields[TG_MLA_FIELDS]; /* looked at only with has_mla */

/* TG_EINPUT if a field is out of its range or two fields don't fit: "kv_heads: 3 does not divide heads = 40". */
tg_status tg_model_check(const tg_model_dims *dims, tg_error *err);

/* Parameters of the model, tied weights once (FORMULAS.md, section 3); active: those that one token meets, i.e. without
 * the experts it is not routed to. */
int64_t tg_model_parameters(const tg_model_dims *dims, int64_t *active);

/* FLOPs of one sample of seq_len tokens, forward and backward, nothing recomputed: what model FLOPs utilisation counts
 * (Korthikanti et al. 2022, appendix A; causal attention counted by half: FORMULAS.md, section 2). */
double tg_model_flops(const tg_model_dims *dims, int64_t seq_len);

typedef enum { TG_ATOM_EMBEDDING, TG_ATOM_LAYER, TG_ATOM_ATTENTION, TG_ATOM_MLP, TG_ATOM_HEAD } tg_atom_kind;
typedef enum { TG_GRANULARITY_LAYER, TG_GRANULARITY_HALF } tg_granularity;

typedef struct {
    tg_atom_kind kind;
    int64_t layer;               /* from 1; 0: embedding and head */
    tg_mlp_kind mlp;             /* none where the atom has no MLP */
    tg_attention_kind attention; /* likewise */
    int64_t parameters;          /* all; the head of a tied model has the vocabulary's too, as its stage holds them */
    int64_t expert_parameters;   /* those of routed experts among them */
    double forward_flops;        /* one sample */
    double boundary_bytes;       /* activations to the next atom, one sample at 2 bytes; 0 behind the head */
    uint64_t hash; /* of all that matters for time and memory except the place: equal layers, equal hashes */
} tg_atom;

typedef struct {
    size_t count;
    tg_atom *at;
} tg_atoms;

/* Embedding, then each layer (half: its attention and its MLP, each with its norm), then final norm and head. FLOPs are
 * two for each matrix weight and token, and four a head dimension for each pair of tokens that attention looks at:
 * seq_len^2 / 2, or window * seq_len - window^2 / 2 (FORMULAS.md, section 2). TG_EINPUT if seq_len is out of range or
 * beyond the learned positions, or as tg_model_check. out lives in arena. */
tg_status tg_model_atoms(tg_arena *arena, const tg_model_dims *dims, int64_t seq_len, tg_granularity granularity,
                         tg_atoms *out, tg_error *err);

/* Signature of the slice [first, last): of the number of its atoms and their hashes, in order. */
uint64_t tg_slice_signature(const tg_atom *atoms, size_t first, size_t last);

#endif
