/*
 * safetensors.c - any bytes, read as a .safetensors file.
 *
 * What reads must write and read back with the same names and bits; what does
 * not gives a reason.  Half of the changes keep the length of the header true.
 */
#include "targets.h"

#include "runtime/safetensors.h"

static const Tensor *find(const SafeTensors *s, const char *name)
{
    for (int i = 0; i < s->tensors.n; i++)
        if (!strcmp(s->tensors.at[i].name, name))
            return s->tensors.at[i].t;
    return NULL;
}

static void write_back(const SafeTensors *s)
{
    StrBuf err = {0}, out = {0};
    SafeTensors again;

    if (!safetensors_write(s, &out, &err) || !safetensors_read(out.s, out.n, &again, &err))
        tsr_bug("what was read cannot be written and read: %s", sb_str(&err));
    if (again.tensors.n != s->tensors.n || again.meta.n != s->meta.n)
        tsr_bug("written and read back: %d tensors for %d", again.tensors.n, s->tensors.n);
    for (int i = 0; i < s->tensors.n; i++) {
        const Tensor *t = find(&again, s->tensors.at[i].name);
        if (!t || !tensor_same_bits(t, s->tensors.at[i].t))
            tsr_bug("written and read back: another '%s'", s->tensors.at[i].name);
    }
    safetensors_done(&again);
    sb_done(&err);
    sb_done(&out);
}

void fuzz_safetensors(const uint8_t *data, size_t n)
{
    StrBuf err = {0};
    SafeTensors s;

    if (safetensors_read(data, n, &s, &err)) {
        write_back(&s);
        safetensors_done(&s);
    } else if (!err.n) {
        tsr_bug("refused without a reason");
    }
    sb_done(&err);
}

size_t change_safetensors(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    const uint8_t *end;

    n = LLVMFuzzerMutate(data, n, max);
    end = n > 8 ? memrchr(data + 8, '}', n - 8) : NULL;
    if (seed % 2 && end) {
        uint64_t len = (uint64_t)(end + 1 - (data + 8));
        memcpy(data, &len, sizeof len);
    }
    return n;
}
