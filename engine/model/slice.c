#include "model/model.h"

uint64_t tg_slice_signature(const tg_atom *atoms, size_t first, size_t last)
{
    uint64_t count = last - first, hash = tg_hash_bytes(TG_HASH_START, &count, sizeof count);
    for (size_t i = first; i < last; i++)
        hash = tg_hash_bytes(hash, &atoms[i].hash, sizeof atoms[i].hash);
    return hash;
}
