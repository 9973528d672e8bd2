#include "text/csv_kernel.h"

#include <stdatomic.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef struct block_bits {
    uint64_t quotes, cuts;
    uint64_t high; /* not 0: a byte is above 127; which one, it does not tell */
} block_bits;

typedef block_bits classify_block(const char *at, char separator);
typedef uint64_t prefix_xor(uint64_t bits);

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Bit i: the parity of bits 0 to i. */
ALWAYS_INLINE uint64_t prefix_xor_shifts(uint64_t bits)
{
    for (int shift = 1; shift < 64; shift *= 2)
        bits ^= bits << shift;
    return bits;
}

/* Appends the places of the set bits. Writes eight at once, for then few branches are mispredicted;
 * what is too many is overwritten by the next block. */
ALWAYS_INLINE void append_bits(dz_csv *csv, uint64_t bits, uint32_t base)
{
    if (bits == 0)
        return;
    uint32_t *to = csv->index + csv->count;
    int count = __builtin_popcountll(bits);
    csv->count += (uint32_t)count;
    for (int done = 0; done < count; done += 8)
        for (int i = 0; i < 8; i++) {
            /* When no bit is left the value is unused; bit 63 keeps ctz defined. */
            *to++ = base + (uint32_t)__builtin_ctzll(bits | UINT64_C(1) << 63);
            bits &= bits - 1;
        }
}

/* Takes one block's bits into the index; `valid` marks the bytes that are input. */
ALWAYS_INLINE void add_block(dz_csv *csv, block_bits block, uint64_t valid, prefix_xor *prefix)
{
    uint32_t base = (uint32_t)(csv->scanned - csv->window);
    csv->high |= block.high;
    uint64_t cuts = block.cuts, closing = 0;
    if (block.quotes | csv->inside | csv->after_close) {
        uint64_t inside = prefix(block.quotes) ^ csv->inside;
        uint64_t opening = block.quotes & inside;
        closing = block.quotes & ~inside;
        cuts &= ~inside;
        uint64_t after_cut = cuts << 1 | csv->after_cut;
        uint64_t after_close = closing << 1 | csv->after_close;
        uint64_t bad = (opening & ~(after_cut | after_close)) | (after_close & ~(cuts | opening));
        bad &= valid;
        if (bad) {
            append_bits(csv, cuts & ((bad & -bad) - 1), base);
            csv->stopped = true;
            return;
        }
        csv->inside = 0 - (inside >> 63);
    }
    append_bits(csv, cuts, base);
    csv->after_cut = cuts >> 63;
    csv->after_close = closing >> 63;
}

/* The vectorised kernels: this loop with an instruction set's ways to classify and to XOR. */
ALWAYS_INLINE void run_blocks(dz_csv *csv, classify_block *classify, prefix_xor *prefix)
{
    size_t end = csv->len - csv->window > DZ_CSV_WINDOW ? csv->window + DZ_CSV_WINDOW : csv->len;
    while (end - csv->scanned >= DZ_CSV_BLOCK && csv->count <= DZ_CSV_INDEX && !csv->stopped) {
        add_block(csv, classify(csv->data + csv->scanned, csv->separator), UINT64_MAX, prefix);
        csv->scanned += DZ_CSV_BLOCK;
    }
    size_t rest = csv->len - csv->scanned;
    if (rest >= DZ_CSV_BLOCK || csv->count > DZ_CSV_INDEX || csv->stopped)
        return;
    char last[DZ_CSV_BLOCK] = {0}; /* zero is neither quote nor cut */
    memcpy(last, csv->data + csv->scanned, rest);
    add_block(csv, classify(last, csv->separator), (UINT64_C(1) << rest) - 1, prefix);
    csv->scanned = csv->len;
    csv->stopped = true;
}

/* One byte by the rules in csv_kernel.h. False when it breaks them. */
static bool step(dz_csv *csv, char c, uint32_t place)
{
    bool cut = c == csv->separator || c == '\n' || c == '\r';
    if (csv->inside) {
        csv->after_close = c == '"';
        csv->inside = c == '"' ? 0 : UINT64_MAX;
        return true;
    }
    if (c == '"' ? !(csv->after_cut | csv->after_close) : csv->after_close && !cut)
        return false;
    csv->inside = c == '"' ? UINT64_MAX : 0;
    csv->after_cut = cut;
    csv->after_close = 0;
    if (cut)
        csv->index[csv->count++] = place;
    return true;
}

/* Shares nothing with the others but the places where it may pause, so that comparing them means
 * something. */
static void run_scalar(dz_csv *csv)
{
    size_t left = csv->len - csv->scanned;
    while (csv->count <= DZ_CSV_INDEX && !csv->stopped) {
        size_t base = csv->scanned - csv->window;
        if (left >= DZ_CSV_BLOCK && base + DZ_CSV_BLOCK > DZ_CSV_WINDOW)
            return;
        size_t n = left < DZ_CSV_BLOCK ? left : DZ_CSV_BLOCK;
        for (size_t i = 0; i < n; i++) {
            csv->high |= (unsigned char)csv->data[csv->scanned + i] & 0x80;
            if (!step(csv, csv->data[csv->scanned + i], (uint32_t)(base + i))) {
                csv->stopped = true;
                return;
            }
        }
        csv->scanned += n;
        left -= n;
        csv->stopped = n < DZ_CSV_BLOCK;
    }
}

#if defined(__x86_64__)
ALWAYS_INLINE block_bits classify_sse2(const char *at, char separator)
{
    block_bits bits = {0};
    for (size_t i = 0; i < 4; i++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at + 16 * i));
        __m128i cuts = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n')),
                                    _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\r')));
        cuts = _mm_or_si128(cuts, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(separator)));
        __m128i quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
        bits.cuts |= (uint64_t)(uint32_t)_mm_movemask_epi8(cuts) << (16 * i);
        bits.quotes |= (uint64_t)(uint32_t)_mm_movemask_epi8(quotes) << (16 * i);
        bits.high |= (uint64_t)(uint32_t)_mm_movemask_epi8(bytes);
    }
    return bits;
}

static void run_sse2(dz_csv *csv)
{
    run_blocks(csv, classify_sse2, prefix_xor_shifts);
}

#define TARGET_AVX2 __attribute__((target("avx2,pclmul,bmi,bmi2,popcnt")))

TARGET_AVX2 static inline block_bits classify_avx2(const char *at, char separator)
{
    block_bits bits = {0};
    for (size_t i = 0; i < 2; i++) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(at + 32 * i));
        __m256i cuts = _mm256_or_si256(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\n')),
                                       _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\r')));
        cuts = _mm256_or_si256(cuts, _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(separator)));
        __m256i quotes = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('"'));
        bits.cuts |= (uint64_t)(uint32_t)_mm256_movemask_epi8(cuts) << (32 * i);
        bits.quotes |= (uint64_t)(uint32_t)_mm256_movemask_epi8(quotes) << (32 * i);
        bits.high |= (uint64_t)(uint32_t)_mm256_movemask_epi8(bytes);
    }
    return bits;
}

/* Multiplying by all ones without carries adds up all lower bits. */
TARGET_AVX2 static inline uint64_t prefix_xor_clmul(uint64_t bits)
{
    __m128i product =
        _mm_clmulepi64_si128(_mm_set_epi64x(0, (long long)bits), _mm_set1_epi8('\xff'), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

TARGET_AVX2 static void run_avx2(dz_csv *csv)
{
    run_blocks(csv, classify_avx2, prefix_xor_clmul);
}
#elif defined(__aarch64__)
/* NEON has no movemask: each byte keeps the bit of its place, and pairs are added up. */
ALWAYS_INLINE uint64_t movemask(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d)
{
    static const uint8_t places[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t bit = vld1q_u8(places);
    uint8x16_t low = vpaddq_u8(vandq_u8(a, bit), vandq_u8(b, bit));
    uint8x16_t high = vpaddq_u8(vandq_u8(c, bit), vandq_u8(d, bit));
    low = vpaddq_u8(low, high);
    low = vpaddq_u8(low, low);
    return vgetq_lane_u64(vreinterpretq_u64_u8(low), 0);
}

ALWAYS_INLINE block_bits classify_neon(const char *at, char separator)
{
    uint8x16_t cuts[4], quotes[4], high = vdupq_n_u8(0);
    for (size_t i = 0; i < 4; i++) {
        uint8x16_t bytes = vld1q_u8((const uint8_t *)at + 16 * i);
        cuts[i] = vorrq_u8(vceqq_u8(bytes, vdupq_n_u8('\n')), vceqq_u8(bytes, vdupq_n_u8('\r')));
        cuts[i] = vorrq_u8(cuts[i], vceqq_u8(bytes, vdupq_n_u8((uint8_t)separator)));
        quotes[i] = vceqq_u8(bytes, vdupq_n_u8('"'));
        high = vorrq_u8(high, bytes);
    }
    return (block_bits){.cuts = movemask(cuts[0], cuts[1], cuts[2], cuts[3]),
                        .quotes = movemask(quotes[0], quotes[1], quotes[2], quotes[3]),
                        .high = vmaxvq_u8(high) & 0x80};
}

static void run_neon(dz_csv *csv)
{
    run_blocks(csv, classify_neon, prefix_xor_shifts);
}
#endif

const dz_csv_kernel_entry *dz_csv_kernels(size_t *count)
{
    static const dz_csv_kernel_entry kernels[] = {
#if defined(__x86_64__)
        {"avx2", run_avx2},
        {"sse2", run_sse2},
#elif defined(__aarch64__)
        {"neon", run_neon},
#endif
        {"scalar", run_scalar},
    };
    *count = sizeof kernels / sizeof kernels[0];
    return kernels;
}

bool dz_csv_kernel_supported(const dz_csv_kernel_entry *kernel)
{
#if defined(__x86_64__)
    if (strcmp(kernel->name, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
               __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
               __builtin_cpu_supports("popcnt");
#endif
    (void)kernel;
    return true;
}

const dz_csv_kernel_entry *dz_csv_kernel_chosen(void)
{
    /* Threads that race here all store the same pointer. */
    static _Atomic(const dz_csv_kernel_entry *) chosen;
    const dz_csv_kernel_entry *kernel = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (kernel)
        return kernel;
    size_t count;
    const dz_csv_kernel_entry *kernels = dz_csv_kernels(&count);
    const char *wanted = getenv("DONMAZ_CSV");
    for (size_t i = 0; i < count; i++) {
        if (!dz_csv_kernel_supported(&kernels[i]))
            continue;
        if (!kernel)
            kernel = &kernels[i];
        if (wanted && strcmp(wanted, kernels[i].name) == 0)
            kernel = &kernels[i];
    }
    atomic_store_explicit(&chosen, kernel, memory_order_relaxed);
    return kernel;
}
