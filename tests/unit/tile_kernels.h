/* tile_kernels.h - kernels of the Tile IR that do what ops of tensors do. */
#ifndef TSR_TESTS_TILE_KERNELS_H
#define TSR_TESTS_TILE_KERNELS_H

#define ROWS_HEAD \
    "  %0: index = group {axis=0}\n" \
    "  %1: index = index {i=4}\n" \
    "  %2: index = imul %0, %1\n" \
    "  %3: index = index {i=0}\n" \
    "  %4: index = size {name=\"N\"}\n" \
    "  %5: index = index {i=256}\n"

/* y = exp(x - max) / sum, along the last axis. */
static const char softmax_text[] =
    "tessera.tile v1\n"
    "kernel @softmax(%x: view f32[?, 1], %y: view f32[?, 1]) sizes(M, N) grid((M+3)//4) {\n" ROWS_HEAD
    "  %6: tree max f32[4] = tree max {dtype=f32 shape=(4)}\n"
    "  %7: tree max f32[4] = for %8 = %3 to %4 step %5 carry(%9 = %6) {\n"
    "    %10: f32[4, 256] = load %x[%2, %8] {shape=(4, 256)}\n"
    "    %11: index = isub %4, %8\n"
    "    %12: f32[4] = reduce max %10, %11 {axis=1}\n"
    "    %13: tree max f32[4] = push %9, %12\n"
    "    yield %13\n"
    "  }\n"
    "  %14: f32[4] = total %7\n"
    "  %15: f32[4, 1] = reshape %14 {shape=(4, 1)}\n"
    "  %16: tree sum f32[4] = tree sum {dtype=f32 shape=(4)}\n"
    "  %17: tree sum f32[4] = for %18 = %3 to %4 step %5 carry(%19 = %16) {\n"
    "    %20: f32[4, 256] = load %x[%2, %18] {shape=(4, 256)}\n"
    "    %21: f32[4, 256] = map sub %20, %15\n"
    "    %22: f32[4, 256] = map exp %21\n"
    "    %23: index = isub %4, %18\n"
    "    %24: f32[4] = reduce sum %22, %23 {axis=1}\n"
    "    %25: tree sum f32[4] = push %19, %24\n"
    "    yield %25\n"
    "  }\n"
    "  %26: f32[4] = total %17\n"
    "  %27: f32[4, 1] = reshape %26 {shape=(4, 1)}\n"
    "  for %28 = %3 to %4 step %5 {\n"
    "    %29: f32[4, 256] = load %x[%2, %28] {shape=(4, 256)}\n"
    "    %30: f32[4, 256] = map sub %29, %15\n"
    "    %31: f32[4, 256] = map exp %30\n"
    "    %32: f32[4, 256] = map div %31, %27\n"
    "    store %y[%2, %28], %32\n"
    "  }\n"
    "}\n";

/* y = (x - mean) * rsqrt(mean((x - mean)^2) + eps) * g + b, along the last axis. */
static const char layer_norm_text[] =
    "tessera.tile v1\n"
    "kernel @layer_norm(%x: view f32[?, 1], %g: view f32[1], %b: view f32[1], %y: view f32[?, 1]) sizes(M, N) grid((M+3)//4) {\n" ROWS_HEAD
    "  %6: tree sum f32[4] = tree sum {dtype=f32 shape=(4)}\n"
    "  %7: tree sum f32[4] = for %8 = %3 to %4 step %5 carry(%9 = %6) {\n"
    "    %10: f32[4, 256] = load %x[%2, %8] {shape=(4, 256)}\n"
    "    %11: index = isub %4, %8\n"
    "    %12: f32[4] = reduce sum %10, %11 {axis=1}\n"
    "    %13: tree sum f32[4] = push %9, %12\n"
    "    yield %13\n"
    "  }\n"
    "  %14: f32[4] = total %7\n"
    "  %15: int64[] = to_tile %4 {dtype=int64}\n"
    "  %16: f32[] = map convert %15 {dtype=f32}\n"
    "  %17: f32[4] = map div %14, %16\n"
    "  %18: f32[4, 1] = reshape %17 {shape=(4, 1)}\n"
    "  %19: tree sum f32[4] = tree sum {dtype=f32 shape=(4)}\n"
    "  %20: tree sum f32[4] = for %21 = %3 to %4 step %5 carry(%22 = %19) {\n"
    "    %23: f32[4, 256] = load %x[%2, %21] {shape=(4, 256)}\n"
    "    %24: f32[4, 256] = map sub %23, %18\n"
    "    %25: f32[4, 256] = map mul %24, %24\n"
    "    %26: index = isub %4, %21\n"
    "    %27: f32[4] = reduce sum %25, %26 {axis=1}\n"
    "    %28: tree sum f32[4] = push %22, %27\n"
    "    yield %28\n"
    "  }\n"
    "  %29: f32[4] = total %20\n"
    "  %30: f32[4] = map div %29, %16\n"
    "  %31: f32[] = const {dtype=f32 f=1e-05}\n"
    "  %32: f32[4] = map add %30, %31\n"
    "  %33: f32[4] = map rsqrt %32\n"
    "  %34: f32[4, 1] = reshape %33 {shape=(4, 1)}\n"
    "  for %35 = %3 to %4 step %5 {\n"
    "    %36: f32[4, 256] = load %x[%2, %35] {shape=(4, 256)}\n"
    "    %37: f32[256] = load %g[%35] {shape=(256)}\n"
    "    %38: f32[256] = load %b[%35] {shape=(256)}\n"
    "    %39: f32[1, 256] = reshape %37 {shape=(1, 256)}\n"
    "    %40: f32[1, 256] = reshape %38 {shape=(1, 256)}\n"
    "    %41: f32[4, 256] = map sub %36, %18\n"
    "    %42: f32[4, 256] = map mul %41, %34\n"
    "    %43: f32[4, 256] = map mul %42, %39\n"
    "    %44: f32[4, 256] = map add %43, %40\n"
    "    store %y[%2, %35], %44\n"
    "  }\n"
    "}\n";

/* y = sum of x over the first axis. */
static const char column_sum_text[] =
    "tessera.tile v1\n"
    "kernel @column_sum(%x: view f32[?, 1], %y: view f32[1]) sizes(M, N) grid((N+31)//32) {\n"
    "  %0: index = group {axis=0}\n"
    "  %1: index = index {i=32}\n"
    "  %2: index = imul %0, %1\n"
    "  %3: index = index {i=0}\n"
    "  %4: index = size {name=\"M\"}\n"
    "  %5: index = index {i=256}\n"
    "  %6: tree sum f32[32] = tree sum {dtype=f32 shape=(32)}\n"
    "  %7: tree sum f32[32] = for %8 = %3 to %4 step %5 carry(%9 = %6) {\n"
    "    %10: f32[256, 32] = load %x[%8, %2] {shape=(256, 32)}\n"
    "    %11: index = isub %4, %8\n"
    "    %12: f32[32] = reduce sum %10, %11 {axis=0}\n"
    "    %13: tree sum f32[32] = push %9, %12\n"
    "    yield %13\n"
    "  }\n"
    "  %14: f32[32] = total %7\n"
    "  store %y[%2], %14\n"
    "}\n";

/* c = a @ b: the first chunk of 256 steps, and the others added to it. */
static const char matmul_text[] =
    "tessera.tile v1\n"
    "kernel @matmul(%a: view f32[?, 1], %b: view f32[?, 1], %c: view f32[?, 1]) sizes(M, N, K) grid((M+11)//12, (N+31)//32) {\n"
    "  %0: index = group {axis=0}\n"
    "  %1: index = index {i=12}\n"
    "  %2: index = imul %0, %1\n"
    "  %3: index = group {axis=1}\n"
    "  %4: index = index {i=32}\n"
    "  %5: index = imul %3, %4\n"
    "  %6: index = index {i=0}\n"
    "  %7: index = size {name=\"K\"}\n"
    "  %8: index = index {i=256}\n"
    "  %9: f32[] = const {dtype=f32}\n"
    "  %10: f32[12, 32] = splat %9 {shape=(12, 32)}\n"
    "  %11: f32[12, 256] = load %a[%2, %6] {shape=(12, 256)}\n"
    "  %12: f32[256, 32] = load %b[%6, %5] {shape=(256, 32)}\n"
    "  %13: f32[12, 32] = dot %11, %12, %10, %7\n"
    "  %14: f32[12, 32] = for %15 = %8 to %7 step %8 carry(%16 = %13) {\n"
    "    %17: f32[12, 256] = load %a[%2, %15] {shape=(12, 256)}\n"
    "    %18: f32[256, 32] = load %b[%15, %5] {shape=(256, 32)}\n"
    "    %19: index = isub %7, %15\n"
    "    %20: f32[12, 32] = dot %17, %18, %10, %19\n"
    "    %21: f32[12, 32] = map add %16, %20\n"
    "    yield %21\n"
    "  }\n"
    "  store %c[%2, %5], %14\n"
    "}\n";

#endif
