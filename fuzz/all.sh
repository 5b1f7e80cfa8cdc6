#!/bin/bash
# All fuzz targets at once: all.sh SECONDS
#
# Runs beside what `fuzz/run.py --pack FOLDER` packed: fuzz.gz, seeds.tar.gz and the dictionaries.  A target that ends
# before the time is over (a finding, a program that starved) starts again on the inputs kept so far; one that keeps ending
# at once, or has 40 findings, stops.  Prints a line for each target; leaves summary.txt, found/ (as soon as they are found:
# five inputs of each target, none above 64 KB; at the end the reports), found.tar.gz with all of them, logs.tar.gz and
# corpus.tar.gz in $OUT.
set -u
seconds=${1:?all.sh SECONDS}
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/out}
work=$(mktemp -d)
mkdir -p "$out/found" "$work/found" "$work/logs" "$work/corpus"
gunzip -c "$here/fuzz.gz" > "$work/fuzz" && chmod +x "$work/fuzz"
tar xzf "$here/seeds.tar.gz" -C "$work"
[ -e "$here/checks.gz" ] && gunzip -c "$here/checks.gz" > "$work/checks" && chmod +x "$work/checks"
ldd "$work/fuzz" "$work/checks" | grep -q "not found" && export LD_LIBRARY_PATH=$here/lib
TESSERA_FUZZ=lex "$work/fuzz" -runs=0 > "$work/start" 2>&1 || { cat "$work/start"; echo "the fuzzers do not start here"; exit 1; }
fixed=
setarch -R true 2>/dev/null && fixed="setarch -R"       # sanitizers of 2022 and much address randomness do not agree

export TESSERA_THREADS=1
export ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=256:detect_stack_use_after_return=0:detect_leaks=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1

end=$(($(date +%s) + seconds))

# forget NAME: inputs that are findings must not end each later start
forget() {
    local f sum
    for f in "$work/found/$1-"*; do
        [ -e "$f" ] || continue
        sum=${f##*-}
        rm -f "$work/corpus/$1/$sum"
        sha1sum "$work/seeds/$1"/* 2>/dev/null | awk -v sum="$sum" '$1 == sum {print $2}' | xargs -r rm -f
    done
}

# bring NAME: inputs of its findings are copied at once, so that they are there however this ends
bring() {
    local f
    for f in $(ls -S -r "$work/found" | grep "^$1-" | head -n 5); do
        [ "$(ls "$out/found" | grep -c "^$1-")" -lt 5 ] || break
        [ "$(stat -c %s "$work/found/$f")" -gt 65536 ] || cp "$work/found/$f" "$out/found"
    done
}

findings() { ls "$work/found" | grep -c "^$1-"; }

# said NAME: the logs of all its runs
said() { find "$work/logs" -name "$1-*" -exec cat {} +; }

# ended NAME BEGAN: is the target to stop? Counts runs in a row that ended at once in `quick`, which is the caller's.
ended() {
    bring "$1"
    quick=$(($(date +%s) - $2 < 2 ? quick + 1 : 0))
    [ $quick -ge 20 ] || [ "$(findings "$1")" -ge 40 ]
}

# one NAME NUMBER: this process of the target, until the time is over
one() {
    local name=$1 log=$work/logs/$1-$2 left run=0 quick=0 began flags="-timeout=25"
    local corpus=$work/corpus/$name seeds=$work/seeds/$name dict=$here/$name.dict
    mkdir -p "$corpus"
    [ -e "$dict" ] || dict=$here/tessera.dict
    case $name in lex|parse|check|eval|graph|tile|json) flags="$flags -dict=$dict" ;; esac
    while left=$((end - $(date +%s))); [ $left -gt 0 ]; do
        run=$((run + 1))
        began=$(date +%s)
        TESSERA_FUZZ=$name timeout -k 30 $((left + 60)) $fixed "$work/fuzz" "$corpus" "$seeds" $flags \
            -max_total_time=$left -artifact_prefix="$work/found/$name-" -rss_limit_mb=4096 -malloc_limit_mb=1000000 \
            -max_len=6000 -entropic=0 -detect_leaks=0 -close_fd_mask=1 -print_final_stats=1 > "$log.$run" 2>&1
        forget "$name"
        ended "$name" "$began" && break
    done
}

# splice: programs spliced from the check target's seeds, on an optimised build without sanitizers (tests/robust/checks.c)
splice() {
    local seed=$RANDOM$RANDOM log=$work/logs/splice-$1 quick=0 began
    while began=$(date +%s); [ "$began" -lt $end ]; do
        seed=$((seed + 1))
        "$work/checks" splice $seed 20000 "$work/found/splice-$seed" "$work"/seeds/check/* >> "$log" 2>&1
        grep -q '^seed ' "$log" || { echo "the splices do not start here" >> "$log"; return; }
        ended splice "$began" && break
    done
}

start=$(date +%s)
for t in $(ls "$work/seeds") eval eval check check; do     # programs reach most: three processes each
    one $t $RANDOM$RANDOM &
done
[ -x "$work/checks" ] && { splice 1 & splice 2 & }
wait

said splice | tail -n 200 | tee -a "$work/summary.txt"
for t in $(ls "$work/seeds"); do
    execs=$(said $t | awk '/stat::number_of_executed_units/ {n += $2} /^session: out of memory after/ {n += $6} END {printf "%d", n}')
    cov=$(said $t | grep -o 'cov: [0-9]*' | awk '$2 > m {m = $2} END {print m + 0}')
    kept=$(ls "$work/corpus/$t" | wc -l)
    bad=$(findings $t)
    starved=$(said $t | grep -c '^session: out of memory')
    echo "$t: $execs executions, $cov edges, $kept inputs kept, $bad findings, $starved fresh starts" | tee -a "$work/summary.txt"
done
echo "$(($(date +%s) - start)) seconds on $(nproc) cores" | tee -a "$work/summary.txt"
for t in $(ls "$work/seeds"); do
    for f in $(grep -l "SUMMARY: \|internal error" "$work/logs/$t-"* | head -n 5); do
        { grep -m1 "internal error" "$f"; grep -A14 -m1 "ERROR: \|runtime error" "$f"; tail -n 5 "$f"; } |
            head -c 65536 > "$out/found/report-$(basename "$f")"
    done
done
for f in "$work"/logs/*; do
    tail -n 12 "$f" > "$f.tail" && mv "$f.tail" "$f"
done
cp "$work/summary.txt" "$out"
tar czf "$out/logs.tar.gz" -C "$work" logs
tar czf "$out/found.tar.gz" -C "$work" found
tar czf "$out/corpus.tar.gz" -C "$work" corpus
rm -rf "$work"
