/*
 * Calls the bundle of classifier.tsr:
 *
 *     tessera build examples/bundle/classifier.tsr -o classifier.tsb
 *     cc -I classifier.tsb examples/bundle/main.c -L classifier.tsb -lclassifier -Wl,-rpath,'$ORIGIN/classifier.tsb' -o main
 *     ./main
 *
 * Of a bundle that was built with --gpu=sm_80,sm_90a, ./main gpu:0 does the same on a GPU.
 */
#include "classifier.h"

#include <stdio.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tsr_message());
    return 1;
}

int main(int argc, char **argv)
{
    static const float point[4][2] = {{0, 0}, {0.5f, 0.5f}, {1, 1}, {-2, 0}};
    const int64_t shape[] = {4, 2}, wrong[] = {2, 4};
    tsr_array x = tsr_rows(TSR_F32, point, 2, shape), y = tsr_result(), inside = tsr_result(), seen = tsr_result();
    tsr_bundle *bundle;

    if (tsr_open(NULL, &bundle))                /* NULL: where the library is */
        return failed("open");
    if (argc > 1 && tsr_use_device(bundle, argv[1]))
        return failed(argv[1]);
    if (classifier_predict(bundle, &x, &y))
        return failed("predict");
    for (int i = 0; i < 4; i++)
        printf("(%g, %g) is %s\n", point[i][0], point[i][1], ((const float *)y.data)[i] > 0.5f ? "inside" : "outside");
    tsr_release(&y);
    for (int round = 0; round < 2; round++) {   /* seen is state: it lasts from call to call */
        if (classifier_count(bundle, &x, &inside, &seen))
            return failed("count");
        printf("%lld of %lld\n", (long long)*(const int64_t *)inside.data, (long long)*(const int64_t *)seen.data);
        tsr_release(&inside);
        tsr_release(&seen);
    }
    x = tsr_rows(TSR_F32, point, 2, wrong);
    printf("%d, %s\n", classifier_predict(bundle, &x, &y), tsr_message());
    tsr_close(bundle);
    return 0;
}
