/* csv2json: any CSV as JSON, one row a line on stdout.
 *
 * Shows the scanner and the JSON writer working together: neither copies or stores more than a
 * row, so a file may be larger than memory. */
#include <donmaz/csv.h>
#include <donmaz/json.h>
#include <donmaz/utf8.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, FLUSH_AT = 256 << 10, SHOWN_PROBLEMS = 20 };

static const char help[] =
    "usage: csv2json FILE [--separator C] [--header] [--lenient]\n"
    "\n"
    "Writes each row of a CSV file as one line of JSON: an array of strings.\n"
    "FILE '-' is standard input. Blank lines are left out.\n"
    "\n"
    "  -s, --separator C  the field separator, one byte, or 'tab' (default ',')\n"
    "  -H, --header       the first row holds column names: rows become objects\n"
    "  -l, --lenient      go on after malformed input: fields with misplaced quotes are\n"
    "                     taken as they stand, bytes that are not UTF-8 become U+FFFD;\n"
    "                     with --header, missing fields are null, surplus ones are an\n"
    "                     array named _extra, and of equal names the last one counts\n"
    "  -h, --help         this text\n"
    "\n"
    "Exit status: 0 done; 1 malformed input (its line and column on stderr), or input or\n"
    "output failed; 2 unusable arguments. Rows before an error have been written.\n";

typedef struct conversion {
    const char *name; /* of the input */
    char separator;
    bool header, lenient;
    dz_csv csv;
    dz_csv_row row;
    dz_csv_field *names; /* with header */
    size_t name_count;
    char *scratch; /* for unescaping a field */
    size_t scratch_len;
    dz_buf out;
    uint64_t problems;
} conversion;

static int fail(const char *what, int error)
{
    fprintf(stderr, "csv2json: %s: %s\n", what, dz_strerror(error));
    return -1;
}

static int flush(conversion *job)
{
    for (size_t done = 0; done < job->out.len;) {
        ssize_t n = write(STDOUT_FILENO, job->out.data + done, job->out.len - done);
        if (n < 0 && errno != EINTR)
            return fail("stdout", -errno);
        done += n > 0 ? (size_t)n : 0;
    }
    job->out.len = 0;
    return 0;
}

/* Reports something malformed. Returns 0 when the job goes on. */
static int report(conversion *job, size_t at, const char *problem)
{
    if (job->lenient && ++job->problems > SHOWN_PROBLEMS)
        return 0;
    dz_csv_place place = dz_csv_where(&job->csv, at);
    fprintf(stderr, "csv2json: %s:%" PRIu64 ":%" PRIu64 ": %s\n", job->name, place.line,
            place.column, problem);
    return job->lenient ? 0 : -1;
}

/* Reads the next row, making room for all its fields. 1, 0 at the end, -1 reported error. */
static int next_row(conversion *job)
{
    int rc = dz_csv_next(&job->csv, &job->row);
    if (rc > 0 && job->row.count > job->row.cap) {
        size_t cap = job->row.count;
        dz_csv_field *fields = realloc(job->row.fields, cap * sizeof *fields);
        if (!fields)
            return fail(job->name, DZ_E_NOMEM);
        job->row.fields = fields;
        job->row.cap = cap;
        dz_csv_seek(&job->csv, job->row.start);
        rc = dz_csv_next(&job->csv, &job->row);
    }
    if (rc > 0 && job->row.problem != DZ_CSV_OK)
        return report(job, job->row.problem_at, dz_csv_problem_text(job->row.problem)) < 0 ? -1 : 1;
    return rc;
}

/* The field's value; .ptr NULL out of memory. Valid until the next call. */
static dz_slice value_of(conversion *job, const dz_csv_field *field)
{
    if (!dz_csv_needs_unescape(field))
        return dz_slice_make(field->text.ptr ? field->text.ptr : "", field->text.len);
    if (field->text.len > job->scratch_len) {
        char *scratch = realloc(job->scratch, field->text.len);
        if (!scratch)
            return (dz_slice){NULL, 0};
        job->scratch = scratch;
        job->scratch_len = field->text.len;
    }
    return dz_slice_make(job->scratch, dz_csv_unescape(field, job->scratch));
}

/* Puts a field where a value is due. -1: reported. */
static int put_field(conversion *job, dz_json *json, const dz_csv_field *field)
{
    dz_slice value = value_of(job, field);
    if (!value.ptr)
        return fail(job->name, DZ_E_NOMEM);
    dz_json_string(json, value);
    return 0;
}

static int put_array(conversion *job, dz_json *json, size_t from)
{
    dz_json_array_open(json);
    for (size_t i = from; i < job->row.count; i++)
        if (put_field(job, json, &job->row.fields[i]) < 0)
            return -1;
    dz_json_array_close(json);
    return 0;
}

static int put_object(conversion *job, dz_json *json)
{
    dz_json_object_open(json);
    for (size_t i = 0; i < job->name_count; i++) {
        dz_slice name = value_of(job, &job->names[i]);
        if (!name.ptr)
            return fail(job->name, DZ_E_NOMEM);
        dz_json_key_slice(json, name);
        if (i >= job->row.count)
            dz_json_null(json);
        else if (put_field(job, json, &job->row.fields[i]) < 0)
            return -1;
    }
    if (job->row.count > job->name_count) {
        dz_json_key(json, "_extra");
        if (put_array(job, json, job->name_count) < 0)
            return -1;
    }
    dz_json_object_close(json);
    return 0;
}

/* The writer refused a row: finds the bytes it refused. */
static int report_utf8(conversion *job)
{
    size_t at = job->row.start;
    while (at < job->row.end) {
        int step = dz_utf8_sequence(job->csv.data + at, job->row.end - at);
        if (step < 0)
            break;
        at += (size_t)step;
    }
    return report(job, at, "bytes that are not UTF-8");
}

static int put_row(conversion *job)
{
    size_t before = job->out.len;
    dz_json json;
    dz_json_init(&json, &job->out, job->lenient ? 0 : DZ_JSON_STRICT_UTF8);
    int rc = job->header ? put_object(job, &json) : put_array(job, &json, 0);
    if (rc == 0) {
        rc = dz_json_finish(&json);
        if (rc == DZ_E_FORMAT)
            rc = report_utf8(job);
        else if (rc < 0)
            rc = fail(job->name, rc);
    }
    if (rc == 0 && dz_buf_append(&job->out, DZ_LIT("\n")) < 0)
        rc = fail(job->name, DZ_E_NOMEM);
    if (rc < 0)
        job->out.len = before;
    return rc;
}

static int compare_names(const void *a, const void *b)
{
    const dz_slice *x = &((const dz_csv_field *)a)->text, *y = &((const dz_csv_field *)b)->text;
    int order = memcmp(x->ptr, y->ptr, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Equal names would make keys of an object equal. */
static int check_names(conversion *job)
{
    dz_csv_field *sorted = malloc((job->name_count + 1) * sizeof *sorted);
    if (!sorted)
        return fail(job->name, DZ_E_NOMEM);
    memcpy(sorted, job->names, job->name_count * sizeof *sorted);
    qsort(sorted, job->name_count, sizeof *sorted, compare_names);
    int rc = 0;
    for (size_t i = 1; i < job->name_count && rc == 0; i++) {
        const char *a = sorted[i - 1].text.ptr, *b = sorted[i].text.ptr;
        if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
            rc = report(job, (size_t)((a > b ? a : b) - job->csv.data), "column name occurs twice");
    }
    free(sorted);
    return rc;
}

/* The first row that is not blank; its fields become the names. */
static int read_names(conversion *job)
{
    int rc;
    do
        rc = next_row(job);
    while (rc > 0 && job->row.count == 0);
    if (rc <= 0)
        return rc;
    job->names = job->row.fields;
    job->name_count = job->row.count;
    job->row.fields = NULL;
    job->row.cap = 0;
    return check_names(job);
}

static int convert(conversion *job, dz_slice input)
{
    dz_csv_options options = {.separator = job->separator, .ragged = !job->header};
    if (dz_csv_init(&job->csv, input, &options) < 0)
        return fail("--separator", DZ_E_INVALID);
    int rc = job->header ? read_names(job) : 0;
    while (rc >= 0 && (rc = next_row(job)) > 0) {
        if (job->row.count == 0)
            continue;
        rc = put_row(job);
        if (rc >= 0 && job->out.len >= FLUSH_AT)
            rc = flush(job);
    }
    int flushed = flush(job);
    if (job->problems > SHOWN_PROBLEMS)
        fprintf(stderr, "csv2json: %s: %" PRIu64 " more problems\n", job->name,
                job->problems - SHOWN_PROBLEMS);
    return rc < 0 ? rc : flushed;
}

static int read_all(int fd, dz_buf *to)
{
    ssize_t n;
    do {
        if (dz_buf_reserve(to, to->len + FLUSH_AT) < 0)
            return DZ_E_NOMEM;
        n = read(fd, to->data + to->len, to->cap - to->len);
        to->len += n > 0 ? (size_t)n : 0;
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n < 0 ? -errno : 0;
}

/* A mapped file that others cut short has pages without content. */
static void input_shrank(int signal)
{
    (void)signal;
    static const char text[] = "csv2json: the input became shorter while it was read\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

/* Maps the input when it is a file, else reads it into *to. */
static int open_input(conversion *job, dz_buf *to, dz_slice *input)
{
    struct stat info;
    int fd = strcmp(job->name, "-") == 0 ? STDIN_FILENO : open(job->name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) < 0)
        return fail(job->name, -errno);
    if (S_ISREG(info.st_mode) && info.st_size > 0 && lseek(fd, 0, SEEK_CUR) == 0) {
        size_t len = (size_t)info.st_size;
        void *data = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data != MAP_FAILED) {
            madvise(data, len, MADV_SEQUENTIAL);
            close(fd);
            *input = dz_slice_make(data, len);
            return 0;
        }
    }
    int rc = read_all(fd, to);
    close(fd);
    *input = dz_buf_slice(to);
    return rc < 0 ? fail(job->name, rc) : 0;
}

static bool parse_separator(const char *text, char *separator)
{
    if (strcmp(text, "tab") == 0 || strcmp(text, "\\t") == 0)
        text = "\t";
    *separator = text[0];
    return text[0] != '\0' && text[1] == '\0' && !strchr("\"\r\n", text[0]);
}

static bool parse_arguments(conversion *job, int argc, char **argv)
{
    static const struct option options[] = {
        {"separator", required_argument, NULL, 's'},
        {"header", no_argument, NULL, 'H'},
        {"lenient", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    job->separator = ',';
    for (int c; (c = getopt_long(argc, argv, "s:Hlh", options, NULL)) != -1;) {
        switch (c) {
        case 's':
            if (!parse_separator(optarg, &job->separator)) {
                fputs("csv2json: --separator takes one byte, no quote or line end\n", stderr);
                return false;
            }
            break;
        case 'H':
            job->header = true;
            break;
        case 'l':
            job->lenient = true;
            break;
        case 'h':
            exit(fputs(help, stdout) < 0 || fflush(stdout) != 0);
        default:
            return false;
        }
    }
    if (argc - optind != 1) {
        fputs("csv2json: name one FILE; --help tells more\n", stderr);
        return false;
    }
    job->name = argv[optind];
    return true;
}

int main(int argc, char **argv)
{
    static conversion job;
    dz_buf read = {0};
    dz_slice input;
    if (!parse_arguments(&job, argc, argv))
        return EXIT_USAGE;
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error like any other */
    signal(SIGBUS, input_shrank);
    int rc = open_input(&job, &read, &input);
    if (rc == 0)
        rc = convert(&job, input);
    dz_buf_release(&read);
    dz_buf_release(&job.out);
    free(job.row.fields);
    free(job.names);
    free(job.scratch);
    return rc < 0 ? 1 : 0;
}
