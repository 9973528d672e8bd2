#include "content/types.h"

#include <stdlib.h>

typedef struct entry {
    const char *extension, *type;
} entry;

/* By extension, in order. After the registry of media types at IANA, with charset=utf-8 for text.
 */
static const entry table[] = {
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"apng", "image/apng"},
    {"atom", "application/atom+xml"},
    {"avif", "image/avif"},
    {"bin", "application/octet-stream"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/plain; charset=utf-8"},
    {"cjs", "text/javascript; charset=utf-8"},
    {"css", "text/css; charset=utf-8"},
    {"csv", "text/csv; charset=utf-8"},
    {"doc", "application/msword"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"eot", "application/vnd.ms-fontobject"},
    {"epub", "application/epub+zip"},
    {"flac", "audio/flac"},
    {"geojson", "application/geo+json"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"h", "text/plain; charset=utf-8"},
    {"heic", "image/heic"},
    {"htm", "text/html; charset=utf-8"},
    {"html", "text/html; charset=utf-8"},
    {"ico", "image/vnd.microsoft.icon"},
    {"ics", "text/calendar; charset=utf-8"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript; charset=utf-8"},
    {"json", "application/json"},
    {"jsonld", "application/ld+json"},
    {"jxl", "image/jxl"},
    {"log", "text/plain; charset=utf-8"},
    {"m3u8", "application/vnd.apple.mpegurl"},
    {"m4a", "audio/mp4"},
    {"m4v", "video/mp4"},
    {"map", "application/json"},
    {"md", "text/markdown; charset=utf-8"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"mkv", "video/matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mpd", "application/dash+xml"},
    {"mpeg", "video/mpeg"},
    {"ndjson", "application/x-ndjson"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"ogg", "audio/ogg"},
    {"ogv", "video/ogg"},
    {"opus", "audio/ogg"},
    {"otf", "font/otf"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"rss", "application/rss+xml"},
    {"rtf", "application/rtf"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"ts", "video/mp2t"},
    {"tsv", "text/tab-separated-values; charset=utf-8"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain; charset=utf-8"},
    {"vtt", "text/vtt; charset=utf-8"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"weba", "audio/webm"},
    {"webm", "video/webm"},
    {"webmanifest", "application/manifest+json"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xhtml", "application/xhtml+xml"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

enum { EXTENSION_MAX = 15 };

static int compare(const void *key, const void *element)
{
    return strcmp(key, ((const entry *)element)->extension);
}

dz_slice dz_type_of_name(dz_slice name)
{
    static const char unknown[] = "application/octet-stream";
    char text[EXTENSION_MAX + 1];
    const char *dot = name.len > 0 ? memrchr(name.ptr, '.', name.len) : NULL;
    size_t len = dot ? (size_t)(name.ptr + name.len - dot - 1) : 0;
    if (len == 0 || len > EXTENSION_MAX)
        return dz_slice_of(unknown);
    for (size_t i = 0; i < len; i++) {
        char c = dot[1 + i];
        text[i] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    }
    text[len] = '\0';
    const entry *found =
        bsearch(text, table, sizeof table / sizeof table[0], sizeof table[0], compare);
    return dz_slice_of(found ? found->type : unknown);
}

static bool ends_with(dz_slice text, dz_slice end)
{
    return text.len >= end.len &&
           dz_slice_equal_nocase(dz_slice_make(text.ptr + text.len - end.len, end.len), end);
}

static bool starts_with(dz_slice text, dz_slice start)
{
    return text.len >= start.len &&
           dz_slice_equal_nocase(dz_slice_make(text.ptr, start.len), start);
}

bool dz_type_compressible(dz_slice type)
{
    static const char *const others[] = {
        "application/javascript",
        "application/json",
        "application/manifest+json",
        "application/rtf",
        "application/toml",
        "application/vnd.apple.mpegurl",
        "application/vnd.ms-fontobject",
        "application/wasm",
        "application/x-javascript",
        "application/x-ndjson",
        "application/x-tar",
        "application/xml",
        "application/yaml",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/vnd.microsoft.icon",
        "image/x-icon",
    };
    const char *semicolon = type.len > 0 ? memchr(type.ptr, ';', type.len) : NULL;
    if (semicolon)
        type.len = (size_t)(semicolon - type.ptr);
    while (type.len > 0 && (type.ptr[type.len - 1] == ' ' || type.ptr[type.len - 1] == '\t'))
        type.len--;
    if (starts_with(type, DZ_LIT("text/")))
        return !dz_slice_equal_nocase(type, DZ_LIT("text/event-stream"));
    if (ends_with(type, DZ_LIT("+json")) || ends_with(type, DZ_LIT("+xml")))
        return true;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (dz_slice_equal_nocase(type, dz_slice_of(others[i])))
            return true;
    return false;
}
