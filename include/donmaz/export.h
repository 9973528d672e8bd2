/* export.h: marks what the shared library exports. */
#ifndef DONMAZ_EXPORT_H
#define DONMAZ_EXPORT_H

#define DZ_API               __attribute__((visibility("default")))
#define DZ_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

#endif
