/* The rows of gpu.def, by name. */
#include "runtime/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const GpuModel models[] = {
#define GPU(name, arch, ...) {#name, #arch, __VA_ARGS__},
#include "runtime/gpu.def"
};
enum { MODELS = sizeof models / sizeof *models };

const GpuModel *gpu_model(const char *text)
{
    for (int i = 0; i < MODELS; i++)
        for (const char *p = text; *p; p++)
            if (!strncasecmp(p, models[i].name, strlen(models[i].name)))
                return &models[i];
    return NULL;
}

const GpuModel *gpu_of_arch(const char *text, size_t n)
{
    for (int i = MODELS - 1; i >= 0; i--)
        if (strlen(models[i].arch) == n && !strncmp(models[i].arch, text, n))
            return &models[i];
    return NULL;
}

const GpuModel *gpu_target(void)
{
    const char *text = getenv("TESSERA_FAKE_DEVICE");
    const GpuModel *m = text ? gpu_model(text) : NULL;

    return m ? m : &models[0];
}
