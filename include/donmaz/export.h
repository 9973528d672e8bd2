/* export.h: marks what the shared library exports, with C linkage also for C++. */
#ifndef DONMAZ_EXPORT_H
#define DONMAZ_EXPORT_H

#ifdef __cplusplus
#define DZ_API extern "C" __attribute__((visibility("default")))
#else
#define DZ_API __attribute__((visibility("default")))
#endif

#define DZ_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

#endif
