#include "http/scan.h"

#if defined __SSE2__
#include <immintrin.h>

__attribute__((target("avx2"))) static const char *skip_avx2(const char *at, const char *end)
{
    const __m256i space = _mm256_set1_epi8(0x1f), tab = _mm256_set1_epi8('\t'),
                  del = _mm256_set1_epi8(0x7f);
    for (; end - at >= 32; at += 32) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)at);
        __m256i low = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, space), bytes);
        __m256i control = _mm256_or_si256(_mm256_andnot_si256(_mm256_cmpeq_epi8(bytes, tab), low),
                                          _mm256_cmpeq_epi8(bytes, del));
        if (!_mm256_testz_si256(control, control))
            break;
    }
    return at;
}

const char *dz_scan_skip(const char *at, const char *end)
{
    return __builtin_cpu_supports("avx2") ? skip_avx2(at, end) : at;
}

#endif
