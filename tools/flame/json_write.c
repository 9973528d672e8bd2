/* Text as JSON holds it. */
#include "json_stream.h"

size_t dz_utf8_length(dz_slice text)
{
    const unsigned char *at = (const unsigned char *)text.ptr;
    size_t left = text.len;
    static const struct {
        unsigned char from, to, second_from, second_to;
        size_t len;
    } rows[] = {
        {0x20, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; left && i < sizeof rows / sizeof rows[0]; i++) {
        if (at[0] < rows[i].from || at[0] > rows[i].to || rows[i].len > left)
            continue;
        if (rows[i].len > 1 && (at[1] < rows[i].second_from || at[1] > rows[i].second_to))
            return 0;
        for (size_t k = 2; k < rows[i].len; k++)
            if ((at[k] & 0xc0) != 0x80)
                return 0;
        return rows[i].len;
    }
    return 0;
}

void dz_json_write_string(FILE *out, dz_slice text)
{
    putc('"', out);
    for (size_t i = 0; i < text.len;) {
        unsigned char c = (unsigned char)text.ptr[i];
        size_t n = dz_utf8_length(dz_slice_make(text.ptr + i, text.len - i));
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == '<') /* so that </script> never ends the page's data */
            fprintf(out, "\\u%04x", c);
        else if (n == 0)
            fputs("\\ufffd", out);
        else
            fwrite(text.ptr + i, 1, n, out);
        i += n ? n : 1;
    }
    putc('"', out);
}
