/* Numeric policies as programs write them. */
#include "ir/core/policy.h"

bool accum_fits(DType storage, DType accum)
{
    if (dtype_is_int(storage))
        return accum == DT_int32 || accum == DT_int64;
    return accum == DT_f32 || accum == DT_bf16 || accum == DT_f16 || accum == DT_tf32 || accum == DT_f64;
}

const char *accum_choices(DType storage)
{
    return dtype_is_int(storage) ? "int32 or int64" : "f32, bf16, f16, tf32 or f64";
}

/* What the suffixes say: bf16 @accum(f32) @saturate. */
static void suffixes(const Policy *p, StrBuf *out)
{
    if (p->accum != DT_NONE)
        sb_printf(out, " @accum(%s)", dtype_info[p->accum].name);
    if (p->rounding == ROUND_STOCHASTIC)
        sb_puts(out, " @stochastic_round");
    if (p->saturate)
        sb_puts(out, " @saturate");
    if (p->has_scale)
        sb_printf(out, " @loss_scale(%g)", p->scale);
    if (p->master)
        sb_puts(out, " @fp32_master");
}

/* What they cannot say is said by a Policy. */
static void as_call(DType dt, const Policy *p, StrBuf *out)
{
    Policy rest = policy_none;

    sb_printf(out, "Policy(storage=%s", dtype_info[dt].name);
    if (p->compute != DT_NONE)
        sb_printf(out, ", compute=%s", dtype_info[p->compute].name);
    if (p->accum != DT_NONE)
        sb_printf(out, ", accumulate=%s", dtype_info[p->accum].name);
    if (p->rounding != DT_NONE)
        sb_printf(out, ", rounding=\"%s\"", rounding_name(policy_rounding(p)));
    if (p->saturate)
        sb_puts(out, ", saturate=True");
    if (p->denorm == DENORM_FLUSH)
        sb_puts(out, ", denorm_mode=\"flush\"");
    sb_putc(out, ')');
    rest.has_scale = p->has_scale, rest.scale = p->scale, rest.master = p->master;
    suffixes(&rest, out);
}

void element_print(DType dt, const Policy *p, StrBuf *out)
{
    if (p && (p->compute != DT_NONE || p->denorm == DENORM_FLUSH || (p->rounding != DT_NONE && p->rounding != ROUND_STOCHASTIC))) {
        as_call(dt, p, out);
        return;
    }
    sb_puts(out, dtype_info[dt].name);
    if (p)
        suffixes(p, out);
}
