#include "records.h"

#include <endian.h>
#include <string.h>

static void put32(char *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}

static void put64(char *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}

/* Appends the field's value; there is room. */
static uint32_t put_text(records *to, const dz_csv_field *field)
{
    char *at = to->text.data + to->text.len;
    size_t len = field->text.len;
    if (dz_csv_needs_unescape(field))
        len = dz_csv_unescape(field, at);
    else
        memcpy(at, field->text.ptr, len);
    to->text.len += len;
    return (uint32_t)len;
}

int records_init(records *to)
{
    *to = (records){0};
    int rc = dz_buf_reserve(&to->books, RECORDS_HEADER);
    if (rc == 0)
        to->books.len = RECORDS_HEADER;
    return rc;
}

int records_add(records *to, const catalogue_book *book)
{
    size_t text = book->title.text.len + book->author.text.len;
    if (to->text.len + text > UINT32_MAX / 2 || to->books.len > UINT32_MAX / 2)
        return DZ_E_TOO_LARGE;
    int rc = dz_buf_reserve(&to->books, to->books.len + RECORDS_SIZE);
    if (rc == 0)
        rc = dz_buf_reserve(&to->text, to->text.len + text);
    if (rc < 0)
        return rc;
    char *at = to->books.data + to->books.len;
    to->books.len += RECORDS_SIZE;
    put64(at, book->isbn);
    put32(at + 8, book->cents);
    put32(at + 12, book->stock);
    put32(at + 16, (uint32_t)to->text.len);
    uint32_t title = put_text(to, &book->title);
    put32(at + 20, (uint32_t)to->text.len);
    uint32_t author = put_text(to, &book->author);
    put32(at + 24, title | author << 16); /* two 16-bit numbers, the first one lower */
    put32(at + 28, 0);
    return 0;
}

int records_finish(records *from, dz_buf *out)
{
    size_t books = from->books.len, text = from->text.len;
    int rc = dz_buf_append(&from->books, dz_buf_slice(&from->text));
    if (rc < 0)
        return rc;
    char *header = from->books.data;
    static const char magic[8] = {'D', 'Z', 'B', 'O', 'O', 'K', 'S', '1'};
    memcpy(header, magic, sizeof magic);
    put32(header + 8, RECORDS_SIZE);
    put32(header + 12, (uint32_t)((books - RECORDS_HEADER) / RECORDS_SIZE));
    put64(header + 16, books);
    put64(header + 24, text);
    rc = dz_buf_transfer(out, &from->books);
    records_close(from);
    return rc;
}

void records_close(records *gone)
{
    dz_buf_release(&gone->books);
    dz_buf_release(&gone->text);
}
