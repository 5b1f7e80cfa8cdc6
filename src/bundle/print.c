/* What a function prints while it runs: the text with its tensors put in, to standard output. */
#include "bundle/bundle.h"

#include "ir/graph/print_mark.h"

#include <stdio.h>

bool bundle_print(void *host, const Attr *a, Tensor *const *in, int nin)
{
    StrBuf text = {0};
    int at = 0;

    for (uint32_t i = 0; i < a->name->len; i++)
        if (a->name->text[i] == PRINT_MARK && at < nin)
            tensor_print(in[at++], &text);
        else
            sb_putc(&text, a->name->text[i]);
    fwrite(sb_str(&text), 1, text.n, stdout);
    fflush(stdout);
    sb_done(&text);
    return true;
}
