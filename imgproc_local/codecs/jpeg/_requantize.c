/* Quantises the coefficients of a JPEG with other steps, without decoding its pixels, and turns it upright.
 *
 * It is a YCbCr picture with 8 bits and Huffman coding, sequential or progressive. Without new steps the coefficients
 * are copied. The result is sequential and uses the Huffman codes of annex K, so it is larger than necessary: callers
 * optimize its scans afterwards. Coefficients that no 8-bit picture has are refused, because mozjpeg, which optimizes
 * the scans, does not check them.
 *
 * The file is read as hostile input: every table index, run and length is checked, the number of scans is limited, and
 * memory depends only on the size of the picture.
 *
 * Source: ITU-T T.81 (JPEG), annexes B (syntax), F (sequential), G (progressive), K.3 (codes).
 */

#include "../_extension.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64, MAX_SCANS = 100, COMPONENTS = 3, LOOKUP_BITS = 9 };

/* the ranges of coefficients of 8-bit samples */
enum { DC_LOWEST = -1024, DC_HIGHEST = 1023, AC_HIGHEST = 1023 };

/* Symbols of one component: with 9,227,465 or more, an optimized Huffman code can exceed 32 bits, at which mozjpeg exits
 * the process. A block has one symbol for each AC coefficient that is not 0, at most three for zeros before them, and one
 * at its end. */
enum { MAX_SYMBOLS = 9000000, MAX_ZERO_RUNS = 3 };

/* The price of a bit in squared steps, chosen for small files at equal SSIMULACRA 2 scores. It is higher for chroma with
 * more samples than in 4:2:0. It rises with the fourth root of the detail of a block, which hides errors: at DETAIL squared
 * steps by a fifth. */
static const float BIT_PRICE = 0.05f, DENSE_CHROMA_BIT_PRICE = 0.15f, DETAIL = 10;

static const uint8_t ZIGZAG[BLOCK] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

typedef struct {
    int defined;
    int16_t lookup[1 << LOOKUP_BITS];            /* by the next bits: length << 8 | symbol; 0 if the code is longer */
    int32_t first[18], last[18], offset[18]; /* by length: the first and the last code, the index of the first symbol */
    uint8_t symbols[256];
} HuffmanTable;

typedef struct {
    int id, h, v, quantization_table; /* h, v: sampling factors */
    int width, height;                /* in blocks that have pixels */
    int stored_width, stored_height;  /* in blocks, rounded up to whole MCUs */
    int dc, ac, previous;             /* of the current scan: Huffman tables, DC of the previous block */
    int16_t *blocks;                  /* coefficients in zigzag order */
    uint8_t steps[BLOCK];             /* of the result, in zigzag order */
} Component;

typedef struct {
    const uint8_t *data;
    size_t size, position;
    uint64_t bit_buffer;
    int buffered_bits;
    int data_ended; /* the buffer was filled with zeros, because a marker or the end of the file was reached */
    int data_bits;  /* bits in the buffer that are data; negative if zeros after the data were used */
    const char *error;

    int width, height, progressive, max_h, max_v, mcus_across, mcus_down, restart_interval;
    int orientation, frame_seen, scans;
    Component component[COMPONENTS];
    uint8_t quantization[4][BLOCK];
    int quantization_set[4];
    HuffmanTable dc[4], ac[4];
} File;

static int fail(File *file, const char *why)
{
    if (file->error == NULL)
        file->error = why;
    return 0;
}

static int be16(const uint8_t *p)
{
    return p[0] << 8 | p[1];
}

/* ---- bits ---- */

static void fill_bits(File *file)
{
    while (file->buffered_bits <= 48) {
        int byte = 0;
        if (!file->data_ended && file->position < file->size) {
            byte = file->data[file->position];
            if (byte != 0xff)
                file->position++;
            else if (file->position + 1 < file->size && file->data[file->position + 1] == 0)
                file->position += 2;
            else
                file->data_ended = 1, byte = 0;
        } else
            file->data_ended = 1;
        /* zeros follow the data; `data_bits` shows whether any of them was used */
        file->data_bits += file->data_ended ? 0 : 8;
        file->bit_buffer = file->bit_buffer << 8 | (uint64_t)byte;
        file->buffered_bits += 8;
    }
}

static int peek_bits(File *file, int bits)
{
    if (file->buffered_bits < bits)
        fill_bits(file);
    return (int)(file->bit_buffer >> (file->buffered_bits - bits) & ((1u << bits) - 1));
}

static void drop_bits(File *file, int bits)
{
    file->buffered_bits -= bits;
    file->data_bits -= bits;
}

static int take_bits(File *file, int bits)
{
    if (bits == 0)
        return 0;
    int value = peek_bits(file, bits);
    drop_bits(file, bits);
    return value;
}

static int is_overrun(const File *file)
{
    return file->data_bits < 0;
}

static void reset_bits(File *file)
{
    file->bit_buffer = 0;
    file->buffered_bits = file->data_ended = file->data_bits = 0;
}

static int read_symbol(File *file, const HuffmanTable *code)
{
    int entry = code->lookup[peek_bits(file, LOOKUP_BITS)];
    if (entry) {
        drop_bits(file, entry >> 8);
        return entry & 255;
    }
    int bits = peek_bits(file, 16);
    for (int length = LOOKUP_BITS + 1; length <= 16; length++) {
        int value = bits >> (16 - length);
        if (value <= code->last[length] && value >= code->first[length]) {
            drop_bits(file, length);
            return code->symbols[code->offset[length] + value - code->first[length]];
        }
    }
    fail(file, "a Huffman code that is not in its table");
    drop_bits(file, 16);
    return 0;
}

static int extend(int value, int bits)
{
    return bits && value < 1 << (bits - 1) ? value - (1 << bits) + 1 : value;
}

/* ---- segments ---- */

static int read_huffman_tables(File *file, const uint8_t *p, size_t size)
{
    while (size >= 17) {
        int kind = p[0] >> 4, number = p[0] & 15, total = 0;
        if (kind > 1 || number > 3)
            return fail(file, "a Huffman table with an invalid number");
        HuffmanTable *code = kind ? &file->ac[number] : &file->dc[number];
        memset(code, 0, sizeof *code);
        for (int length = 1; length <= 16; length++)
            total += p[length];
        if (total > 256 || (size_t)total + 17 > size)
            return fail(file, "a Huffman table that is too long");
        memcpy(code->symbols, p + 17, (size_t)total);
        int32_t value = 0, offset = 0;
        for (int length = 1; length <= 16; length++) {
            int count = p[length];
            code->first[length] = value;
            code->last[length] = count ? value + count - 1 : -1;
            code->offset[length] = offset;
            if (value + count > 1 << length)
                return fail(file, "a Huffman table with too many codes");
            for (int i = 0; length <= LOOKUP_BITS && i < count; i++) {
                int shift = LOOKUP_BITS - length;
                for (int j = 0; j < 1 << shift; j++)
                    code->lookup[((value + i) << shift) + j] = (int16_t)(length << 8 | code->symbols[offset + i]);
            }
            value = (value + count) << 1;
            offset += count;
        }
        code->defined = 1;
        p += 17 + total;
        size -= 17 + (size_t)total;
    }
    return size == 0 || fail(file, "a truncated Huffman table");
}

static int read_quantization_tables(File *file, const uint8_t *p, size_t size)
{
    while (size >= 1 + BLOCK) {
        if (p[0] >> 4 || (p[0] & 15) > 3)
            return fail(file, "an unsupported quantization table");
        memcpy(file->quantization[p[0] & 15], p + 1, BLOCK);
        file->quantization_set[p[0] & 15] = 1;
        p += 1 + BLOCK;
        size -= 1 + BLOCK;
    }
    return size == 0 || fail(file, "a truncated quantization table");
}

static int read_frame(File *file, int marker, const uint8_t *p, size_t size)
{
    if (marker != 0xc0 && marker != 0xc1 && marker != 0xc2)
        return fail(file, "an unsupported coding process");
    if (file->frame_seen || size < 6 + 3 * COMPONENTS || p[0] != 8 || p[5] != COMPONENTS)
        return fail(file, "not a single frame with three components of 8 bits");
    file->frame_seen = 1;
    file->progressive = marker == 0xc2;
    file->height = be16(p + 1);
    file->width = be16(p + 3);
    if (!file->width || !file->height)
        return fail(file, "a picture without pixels");
    for (int i = 0; i < COMPONENTS; i++) {
        Component *one = &file->component[i];
        one->id = p[6 + 3 * i];
        one->h = p[7 + 3 * i] >> 4;
        one->v = p[7 + 3 * i] & 15;
        one->quantization_table = p[8 + 3 * i];
        int max_factor = i ? 1 : 2;
        if (one->quantization_table > 3 || one->h < 1 || one->v < 1 || one->h > max_factor || one->v > max_factor)
            return fail(file, "unsupported sampling factors");
        if (i && one->id == file->component[i - 1].id)
            return fail(file, "components with the same identifier");
    }
    if (file->component[0].id == 'R' || file->component[0].id == file->component[2].id)
        return fail(file, "not YCbCr");
    file->max_h = file->component[0].h;
    file->max_v = file->component[0].v;
    file->mcus_across = (file->width + 8 * file->max_h - 1) / (8 * file->max_h);
    file->mcus_down = (file->height + 8 * file->max_v - 1) / (8 * file->max_v);
    for (int i = 0; i < COMPONENTS; i++) {
        Component *one = &file->component[i];
        one->width = ((file->width * one->h + file->max_h - 1) / file->max_h + 7) / 8;
        one->height = ((file->height * one->v + file->max_v - 1) / file->max_v + 7) / 8;
        one->stored_width = file->mcus_across * one->h;
        one->stored_height = file->mcus_down * one->v;
        one->blocks = calloc((size_t)one->stored_width * one->stored_height, BLOCK * sizeof(int16_t));
        if (one->blocks == NULL)
            return fail(file, "not enough memory");
    }
    return 1;
}

/* ---- scans ---- */

typedef struct {
    int count;       /* of components */
    int first, last; /* indices of coefficients in zigzag order (Ss, Se) */
    int high, low;   /* bit positions of successive approximation (Ah, Al); high is 0 in a first scan */
    int run;         /* number of following blocks without new coefficients (EOBRUN) */
    Component *component[COMPONENTS];
} Scan;

static int store_coefficient(File *file, int16_t *block, int k, int value)
{
    if (k ? value > AC_HIGHEST || value < -AC_HIGHEST : value > DC_HIGHEST || value < DC_LOWEST)
        return fail(file, "a coefficient out of range");
    block[k] = (int16_t)value;
    return 1;
}

static int dc_difference(File *file, Component *one)
{
    int bits = read_symbol(file, &file->dc[one->dc]);
    if (bits > 12)
        return fail(file, "a coefficient out of range");
    one->previous += extend(take_bits(file, bits), bits);
    return 1;
}

static int sequential_block(File *file, Component *one, int16_t *block)
{
    if (!dc_difference(file, one))
        return 0;
    if (!store_coefficient(file, block, 0, one->previous))
        return 0;
    for (int k = 1; k < BLOCK; k++) {
        int symbol = read_symbol(file, &file->ac[one->ac]), run = symbol >> 4, bits = symbol & 15;
        if (bits == 0) {
            if (run != 15)
                break;
            k += 15;
            continue;
        }
        k += run;
        if (k >= BLOCK || bits > 10)
            return fail(file, "a coefficient out of range");
        int value = extend(take_bits(file, bits), bits);
        if (!store_coefficient(file, block, k, value))
            return 0;
    }
    return 1;
}

static int dc_block(File *file, Component *one, const Scan *scan, int16_t *block)
{
    if (scan->high) {
        return !take_bits(file, 1) ||
               store_coefficient(file, block, 0, block[0] | 1 << scan->low);
    }
    if (!dc_difference(file, one))
        return 0;
    return store_coefficient(file, block, 0, one->previous * (1 << scan->low));
}

static int ac_first_block(File *file, Component *one, Scan *scan, int16_t *block)
{
    if (scan->run) {
        scan->run--;
        return 1;
    }
    for (int k = scan->first; k <= scan->last; k++) {
        int symbol = read_symbol(file, &file->ac[one->ac]), run = symbol >> 4, bits = symbol & 15;
        if (bits == 0) {
            if (run < 15) {
                scan->run = (1 << run) - 1 + take_bits(file, run);
                break;
            }
            k += 15;
            continue;
        }
        k += run;
        if (k > scan->last || bits > 10)
            return fail(file, "a coefficient out of range");
        if (!store_coefficient(file, block, k, extend(take_bits(file, bits), bits) * (1 << scan->low)))
            return 0;
    }
    return 1;
}

static int refine(File *file, int16_t *coefficient, int low)
{
    if (take_bits(file, 1) && !(abs(*coefficient) & 1 << low)) {
        int value = *coefficient + (*coefficient > 0 ? 1 << low : -(1 << low));
        if (value > AC_HIGHEST || value < -AC_HIGHEST)
            return fail(file, "a coefficient out of range");
        *coefficient = (int16_t)value;
    }
    return 1;
}

static int ac_refine_block(File *file, Component *one, Scan *scan, int16_t *block)
{
    int k = scan->first;
    if (scan->run == 0) {
        for (; k <= scan->last; k++) {
            int symbol = read_symbol(file, &file->ac[one->ac]), run = symbol >> 4, bits = symbol & 15, value = 0;
            if (bits > 1)
                return fail(file, "a coefficient out of range");
            if (bits)
                value = take_bits(file, 1) ? 1 << scan->low : -(1 << scan->low);
            else if (run < 15) {
                scan->run = (1 << run) + take_bits(file, run);
                break;
            }
            for (; k <= scan->last; k++) {
                if (block[k]) {
                    if (!refine(file, &block[k], scan->low))
                        return 0;
                } else if (run-- == 0)
                    break;
            }
            if (value) {
                if (k > scan->last)
                    return fail(file, "a run beyond the end of its block");
                if (!store_coefficient(file, block, k, value))
                    return 0;
            }
        }
    }
    if (scan->run) {
        for (; k <= scan->last; k++)
            if (block[k] && !refine(file, &block[k], scan->low))
                return 0;
        scan->run--;
    }
    return 1;
}

static int decode_block(File *file, Component *one, Scan *scan, int column, int row)
{
    int16_t *block = one->blocks + ((size_t)row * one->stored_width + column) * BLOCK;
    int done;
    if (!file->progressive)
        done = sequential_block(file, one, block);
    else if (scan->first == 0)
        done = dc_block(file, one, scan, block);
    else
        done = scan->high ? ac_refine_block(file, one, scan, block) : ac_first_block(file, one, scan, block);
    return done && file->error == NULL && (!is_overrun(file) || fail(file, "a truncated scan"));
}

static int read_restart_marker(File *file, Scan *scan)
{
    reset_bits(file);
    while (file->position + 1 < file->size && file->data[file->position] == 0xff &&
           file->data[file->position + 1] == 0xff)
        file->position++;
    if (file->position + 1 >= file->size || file->data[file->position] != 0xff ||
        (file->data[file->position + 1] & 0xf8) != 0xd0)
        return fail(file, "a missing restart marker");
    file->position += 2;
    scan->run = 0;
    for (int i = 0; i < scan->count; i++)
        scan->component[i]->previous = 0;
    return 1;
}

static int decode_scan(File *file, Scan *scan)
{
    Component *only = scan->count == 1 ? scan->component[0] : NULL;
    int across = only ? only->width : file->mcus_across, down = only ? only->height : file->mcus_down;
    int left = file->restart_interval;
    for (int row = 0; row < down; row++)
        for (int column = 0; column < across; column++) {
            if (file->restart_interval && left-- == 0) {
                if (!read_restart_marker(file, scan))
                    return 0;
                left = file->restart_interval - 1;
            }
            if (only) {
                if (!decode_block(file, only, scan, column, row))
                    return 0;
                continue;
            }
            for (int i = 0; i < scan->count; i++) {
                Component *one = scan->component[i];
                for (int y = 0; y < one->v; y++)
                    for (int x = 0; x < one->h; x++)
                        if (!decode_block(file, one, scan, column * one->h + x, row * one->v + y))
                            return 0;
            }
        }
    return 1;
}

static int read_scan(File *file, const uint8_t *p, size_t size)
{
    Scan scan = {0};
    if (!file->frame_seen || size < 1 || (scan.count = p[0]) < 1 || scan.count > COMPONENTS ||
        size < (size_t)(4 + 2 * scan.count))
        return fail(file, "a scan with invalid parameters");
    if (++file->scans > MAX_SCANS)
        return fail(file, "too many scans");
    scan.first = p[1 + 2 * scan.count];
    scan.last = p[2 + 2 * scan.count];
    scan.high = p[3 + 2 * scan.count] >> 4;
    scan.low = p[3 + 2 * scan.count] & 15;
    if (file->progressive ? scan.first > scan.last || scan.last >= BLOCK || (scan.first == 0 && scan.last) ||
                                (scan.first && scan.count > 1) || scan.low > 10 ||
                                (scan.high && scan.high != scan.low + 1)
                          : scan.first || scan.last != BLOCK - 1 || scan.high || scan.low)
        return fail(file, "a scan with invalid parameters");
    int next = 0;
    for (int i = 0; i < scan.count; i++) {
        while (next < COMPONENTS && file->component[next].id != p[1 + 2 * i])
            next++;
        if (next == COMPONENTS)
            return fail(file, "a scan of an unknown component");
        Component *one = scan.component[i] = &file->component[next++];
        one->dc = p[2 + 2 * i] >> 4;
        one->ac = p[2 + 2 * i] & 15;
        one->previous = 0;
        int needs_dc = scan.first == 0 && !scan.high, needs_ac = !file->progressive || scan.first;
        if (one->dc > 3 || one->ac > 3 || (needs_dc && !file->dc[one->dc].defined) ||
            (needs_ac && !file->ac[one->ac].defined))
            return fail(file, "a scan without its Huffman tables");
    }
    reset_bits(file);
    return decode_scan(file, &scan);
}

static int read_file(File *file)
{
    const uint8_t *data = file->data;
    if (file->size < 4 || data[0] != 0xff || data[1] != 0xd8)
        return fail(file, "not a JPEG");
    for (file->position = 2;;) {
        /* skip to the next marker, over stray bytes */
        size_t remaining = file->position < file->size ? file->size - file->position : 0;
        const uint8_t *found = remaining ? memchr(data + file->position, 0xff, remaining) : NULL;
        if (found == NULL || (size_t)(found - data) + 1 >= file->size)
            return fail(file, "no end marker");
        file->position = (size_t)(found - data) + 1;
        int marker = data[file->position];
        if (marker == 0xff)
            continue;
        file->position++;
        if (marker == 0xd9)
            return file->scans > 0 || fail(file, "no scan");
        if (marker <= 1 || (marker >= 0xd0 && marker <= 0xd8))
            continue;
        if (file->position + 2 > file->size)
            return fail(file, "a truncated segment");
        size_t length = (size_t)be16(data + file->position);
        if (length < 2 || file->position + length > file->size)
            return fail(file, "a truncated segment");
        const uint8_t *p = data + file->position + 2;
        size_t size = length - 2;
        file->position += length;
        int valid = 1;
        if (marker == 0xc4)
            valid = read_huffman_tables(file, p, size);
        else if (marker == 0xdb)
            /* a table that is redefined between scans would apply to only some of them */
            valid = file->scans ? fail(file, "a quantization table between scans")
                                : read_quantization_tables(file, p, size);
        else if (marker == 0xdd)
            valid = size == 2 ? (file->restart_interval = be16(p), 1) : fail(file, "an invalid restart interval");
        else if (marker == 0xda)
            valid = read_scan(file, p, size);
        else if (marker == 0xee && size >= 12 && memcmp(p, "Adobe", 5) == 0)
            valid = p[11] == 1 || fail(file, "not YCbCr");
        else if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc8)
            valid = read_frame(file, marker, p, size);
        if (!valid)
            return 0;
    }
}

/* ---- orientation ---- */

static void swap(int *one, int *other)
{
    int saved = *one;
    *one = *other;
    *other = saved;
}

/* Turns the picture upright by the EXIF orientation. An edge that moves from the right to the left, or from the bottom to the
 * top, must end with a whole MCU: otherwise its padding would be inside the picture. */
static int make_upright(File *file)
{
    int transposed = file->orientation >= 5;
    int mirrored = file->orientation == 2 || file->orientation == 3 || file->orientation >= 7;
    int flipped = file->orientation == 3 || file->orientation == 4 || file->orientation == 6 || file->orientation == 7;
    if ((mirrored && file->width % (8 * file->max_h)) || (flipped && file->height % (8 * file->max_v)))
        return fail(file, "a partial block that would be inside the upright picture");
    int position[BLOCK], place[BLOCK], sign[BLOCK];
    for (int k = 0; k < BLOCK; k++)
        position[ZIGZAG[k]] = k;
    for (int k = 0; k < BLOCK; k++) {
        int across = ZIGZAG[k] % 8, down = ZIGZAG[k] / 8;
        place[k] = transposed ? position[across * 8 + down] : k;
        sign[k] = ((mirrored && across & 1) ^ (flipped && down & 1)) ? -1 : 1;
    }
    for (int i = 0; i < COMPONENTS; i++) {
        Component *one = &file->component[i];
        int width = one->stored_width, height = one->stored_height, line = transposed ? height : width;
        int16_t *blocks = malloc((size_t)width * height * BLOCK * sizeof(int16_t));
        if (blocks == NULL)
            return fail(file, "not enough memory");
        for (int row = 0; row < height; row++)
            for (int column = 0; column < width; column++) {
                int x = mirrored ? width - 1 - column : column, y = flipped ? height - 1 - row : row;
                if (transposed)
                    swap(&x, &y);
                const int16_t *from = one->blocks + ((size_t)row * width + column) * BLOCK;
                int16_t *to = blocks + ((size_t)y * line + x) * BLOCK;
                for (int k = 0; k < BLOCK; k++)
                    to[place[k]] = (int16_t)(sign[k] * from[k]);
            }
        free(one->blocks);
        one->blocks = blocks;
        if (transposed) {
            swap(&one->h, &one->v);
            swap(&one->width, &one->height);
            swap(&one->stored_width, &one->stored_height);
        }
    }
    for (int table = 0; transposed && table < 4; table++) {
        uint8_t turned[BLOCK];
        for (int k = 0; k < BLOCK; k++)
            turned[place[k]] = file->quantization[table][k];
        memcpy(file->quantization[table], turned, BLOCK);
    }
    if (transposed) {
        swap(&file->width, &file->height);
        swap(&file->max_h, &file->max_v);
        swap(&file->mcus_across, &file->mcus_down);
    }
    return 1;
}

/* ---- writing ---- */

typedef struct {
    uint8_t *data;
    size_t size, room;
    uint64_t bit_buffer;
    int buffered_bits, failed;
} Out;

typedef struct {
    uint16_t code[256];
    uint8_t length[256];
} HuffmanCodes;

static void write_byte(Out *out, int byte)
{
    if (out->size == out->room) {
        size_t room = out->room + out->room / 2 + 65536;
        uint8_t *data = realloc(out->data, room);
        if (data == NULL) {
            out->failed = 1;
            return;
        }
        out->data = data;
        out->room = room;
    }
    out->data[out->size++] = (uint8_t)byte;
}

static void write_bytes(Out *out, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        write_byte(out, bytes[i]);
}

static void write_bits(Out *out, unsigned value, int bits)
{
    out->bit_buffer = out->bit_buffer << bits | (value & ((1u << bits) - 1));
    out->buffered_bits += bits;
    while (out->buffered_bits >= 8) {
        out->buffered_bits -= 8;
        int byte = (int)(out->bit_buffer >> out->buffered_bits & 255);
        write_byte(out, byte);
        if (byte == 255)
            write_byte(out, 0);
    }
}

/* the Huffman tables of annex K.3 as the content of a DHT segment: luma DC and AC, then chroma DC and AC */
static const uint8_t CODES[] = {
    0x00, 0x00, 0x01, 0x05, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b,
    0x10, 0x00, 0x02, 0x01, 0x03, 0x03, 0x02, 0x04, 0x03, 0x05, 0x05, 0x04, 0x04, 0x00, 0x00, 0x01, 0x7d,
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71, 0x14,
    0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72, 0x82, 0x09,
    0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a,
    0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65,
    0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88,
    0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9,
    0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca,
    0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea,
    0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
    0x01, 0x00, 0x03, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b,
    0x11, 0x00, 0x02, 0x01, 0x02, 0x04, 0x04, 0x03, 0x04, 0x07, 0x05, 0x04, 0x04, 0x00, 0x01, 0x02, 0x77,
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71, 0x13, 0x22, 0x32,
    0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16,
    0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39,
    0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64,
    0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86,
    0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
    0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8,
    0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9,
    0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
};

static void build_codes(HuffmanCodes *codes, const uint8_t *p)
{
    const uint8_t *symbols = p + 17;
    unsigned code = 0;
    for (int length = 1; length <= 16; length++) {
        for (int i = 0; i < p[length]; i++, symbols++) {
            codes->code[*symbols] = (uint16_t)code++;
            codes->length[*symbols] = (uint8_t)length;
        }
        code <<= 1;
    }
}

static void build_all_codes(HuffmanCodes codes[4])
{
    memset(codes, 0, 4 * sizeof *codes);
    const uint8_t *p = CODES;
    for (int i = 0; i < 4; i++) {
        build_codes(&codes[i], p);
        int total = 17;
        for (int length = 1; length <= 16; length++)
            total += p[length];
        p += total;
    }
}

static int bit_length(int value)
{
    unsigned rest = (unsigned)abs(value);
    int bits = 0;
    for (; rest; rest >>= 1)
        bits++;
    return bits;
}

static void write_symbol(Out *out, const HuffmanCodes *codes, int symbol, int value, int bits)
{
    write_bits(out, codes->code[symbol], codes->length[symbol]);
    if (bits)
        write_bits(out, (unsigned)(value < 0 ? value - 1 : value), bits);
}

static void write_block(Out *out, const int16_t *block, int *previous, const HuffmanCodes *dc, const HuffmanCodes *ac)
{
    int difference = block[0] - *previous, bits = bit_length(difference), run = 0;
    *previous = block[0];
    write_symbol(out, dc, bits, difference, bits);
    for (int k = 1; k < BLOCK; k++) {
        if (block[k] == 0) {
            run++;
            continue;
        }
        for (; run > 15; run -= 16)
            write_symbol(out, ac, 0xf0, 0, 0);
        bits = bit_length(block[k]);
        write_symbol(out, ac, run << 4 | bits, block[k], bits);
        run = 0;
    }
    if (run)
        write_symbol(out, ac, 0, 0, 0);
}

static void write_segment_header(Out *out, int marker, size_t size)
{
    uint8_t head[4] = {0xff, (uint8_t)marker, (uint8_t)((size + 2) >> 8), (uint8_t)(size + 2)};
    write_bytes(out, head, 4);
}

/* The number of bits of a coefficient, by the number of its bits and of the zeros before it. */
typedef float CoefficientBits[11][BLOCK];

static void count_coefficient_bits(CoefficientBits counts, const HuffmanCodes *ac)
{
    for (int bits = 1; bits <= 10; bits++)
        for (int run = 0; run < BLOCK; run++)
            counts[bits][run] = (float)((run >> 4) * ac->length[0xf0] + ac->length[(run & 15) << 4 | bits] + bits);
}

/* Quantises a block with other steps. Of the coefficients that do not become 0, some are lowered by one or dropped: those
 * that together lead to the lowest sum of squared errors, in new steps, and the price of all bits. The sums are computed
 * from the first coefficient to the last, for each as the last one that is not 0 (dynamic programming). */
static void requantize_block(int16_t *block, const uint8_t *old_steps, const uint8_t *steps, CoefficientBits counts,
                             float end_bits, float bit_price)
{
    /* dropped: the errors if all up to this coefficient become 0; lowest: the lowest sum up to this one, less `dropped` */
    float value[BLOCK], dropped[BLOCK], lowest[BLOCK];
    int kept[BLOCK], before[BLOCK], level[BLOCK], count = 1, last = 0;
    for (int k = 0; k < BLOCK; k++)
        value[k] = (float)(abs(block[k]) * old_steps[k]) / steps[k];
    dropped[0] = lowest[0] = 0;
    kept[0] = 0;
    for (int k = 1; k < BLOCK; k++) {
        value[k] = value[k] > AC_HIGHEST ? AC_HIGHEST : value[k];
        dropped[k] = dropped[k - 1] + value[k] * value[k];
        if (value[k] >= 0.5f)
            kept[count++] = k;
    }
    bit_price *= sqrtf(sqrtf(1 + dropped[BLOCK - 1] / DETAIL));
    float total = bit_price * end_bits;
    for (int i = 1; i < count; i++) {
        int k = kept[i], rounded = (int)(value[k] + 0.5f), bits = 0, best = 0;
        float sum = 0;
        lowest[i] = HUGE_VALF;
        for (int to = rounded; to > 0 && to >= rounded - 1; to--) {
            if (bit_length(to) != bits) {
                bits = bit_length(to);
                sum = HUGE_VALF;
                for (int j = 0; j < i; j++) {
                    float each = lowest[j] + bit_price * counts[bits][k - kept[j] - 1];
                    if (each < sum) {
                        sum = each;
                        best = j;
                    }
                }
            }
            float error = (value[k] - to) * (value[k] - to) - value[k] * value[k];
            if (sum + error < lowest[i]) {
                lowest[i] = sum + error;
                before[i] = best;
                level[i] = to;
            }
        }
        float all = lowest[i] + (k < BLOCK - 1 ? bit_price * end_bits : 0);
        if (all < total) {
            total = all;
            last = i;
        }
    }
    int16_t result[BLOCK] = {0};
    int dc = (int)floorf((float)(block[0] * old_steps[0]) / steps[0] + 0.5f);
    result[0] = (int16_t)(dc > DC_HIGHEST ? DC_HIGHEST : dc < DC_LOWEST ? DC_LOWEST : dc);
    for (int i = last; i > 0; i = before[i])
        result[kept[i]] = (int16_t)(block[kept[i]] < 0 ? -level[i] : level[i]);
    memcpy(block, result, sizeof result);
}

/* Quantises a component with new steps, if there are any. Chroma steps never become finer than those of the file. */
static int requantize(File *file, int number, const Py_buffer *steps, const HuffmanCodes *ac)
{
    Component *one = &file->component[number];
    const uint8_t *old_steps = file->quantization[one->quantization_table];
    if (!file->quantization_set[one->quantization_table])
        return fail(file, "no quantization table");
    memcpy(one->steps, steps->len ? steps->buf : old_steps, BLOCK);
    for (int k = 0; k < BLOCK; k++) {
        if (number && one->steps[k] < old_steps[k])
            one->steps[k] = old_steps[k];
        if (one->steps[k] == 0)
            return fail(file, "a quantization step of 0");
    }
    CoefficientBits counts;
    count_coefficient_bits(counts, ac);
    float bit_price = number && file->max_h * file->max_v < 4 ? DENSE_CHROMA_BIT_PRICE : BIT_PRICE;
    size_t blocks = (size_t)one->stored_width * one->stored_height, symbols = blocks;
    for (size_t i = 0; i < blocks; i++) {
        int16_t *block = one->blocks + i * BLOCK;
        if (steps->len)
            requantize_block(block, old_steps, one->steps, counts, ac->length[0], bit_price);
        int coefficients = 0;
        for (int k = 1; k < BLOCK; k++)
            coefficients += block[k] != 0;
        symbols += coefficients ? (size_t)coefficients + MAX_ZERO_RUNS : 0;
    }
    return symbols <= MAX_SYMBOLS || fail(file, "too many coefficients");
}

static int write_file(Out *out, File *file, const HuffmanCodes *codes)
{
    static const uint8_t start[] = {0xff, 0xd8}, end[] = {0xff, 0xd9};
    static const uint8_t jfif[] = {'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0};
    write_bytes(out, start, sizeof start);
    write_segment_header(out, 0xe0, sizeof jfif);
    write_bytes(out, jfif, sizeof jfif);
    const Component *parts = file->component;
    int one_table = memcmp(parts[1].steps, parts[2].steps, BLOCK) == 0;
    for (int i = 0; i < (one_table ? 2 : 3); i++) {
        write_segment_header(out, 0xdb, 1 + BLOCK);
        write_byte(out, i);
        write_bytes(out, parts[i].steps, BLOCK);
    }
    uint8_t frame[15] = {8, (uint8_t)(file->height >> 8), (uint8_t)file->height, (uint8_t)(file->width >> 8),
                         (uint8_t)file->width, 3, 1, (uint8_t)(file->max_h << 4 | file->max_v), 0,
                         2, 0x11, 1, 3, 0x11, (uint8_t)(one_table ? 1 : 2)};
    write_segment_header(out, 0xc0, sizeof frame);
    write_bytes(out, frame, sizeof frame);
    write_segment_header(out, 0xc4, sizeof CODES);
    write_bytes(out, CODES, sizeof CODES);
    static const uint8_t scan[] = {3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0};
    write_segment_header(out, 0xda, sizeof scan);
    write_bytes(out, scan, sizeof scan);

    int previous[COMPONENTS] = {0};
    for (int row = 0; row < file->mcus_down; row++)
        for (int column = 0; column < file->mcus_across; column++)
            for (int i = 0; i < COMPONENTS; i++) {
                const Component *one = &parts[i];
                for (int y = row * one->v; y < (row + 1) * one->v; y++)
                    for (int x = column * one->h; x < (column + 1) * one->h; x++) {
                        int16_t flat[BLOCK];
                        const int16_t *block = flat;
                        if (i || (x < one->width && y < one->height))
                            block = one->blocks + ((size_t)y * one->stored_width + x) * BLOCK;
                        else {
                            /* a block without pixels: repeating the previous DC takes the fewest bits */
                            memset(flat, 0, sizeof flat);
                            flat[0] = (int16_t)previous[i];
                        }
                        write_block(out, block, &previous[i], &codes[i ? 2 : 0], &codes[i ? 3 : 1]);
                        if (out->failed)
                            return 0;
                    }
            }
    if (out->buffered_bits)
        write_bits(out, 0x7f, 8 - out->buffered_bits);
    write_bytes(out, end, sizeof end);
    return !out->failed;
}

/* ---- Python ---- */

static PyObject *requantized(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer data, steps[2] = {{0}};
    int orientation = 1;
    if (!PyArg_ParseTuple(args, "y*|y*y*i", &data, &steps[0], &steps[1], &orientation))
        return NULL;
    File *file = calloc(1, sizeof *file);
    Out out = {0};
    int done = 0;
    const char *reason = "not enough memory";
    if ((steps[0].len && steps[0].len != BLOCK) || (steps[1].len && steps[1].len != BLOCK))
        reason = "expected 64 quantization steps";
    else if (file != NULL) {
        Py_BEGIN_ALLOW_THREADS
        HuffmanCodes codes[4];
        build_all_codes(codes);
        file->data = data.buf;
        file->size = (size_t)data.len;
        file->orientation = orientation;
        done = read_file(file) && (orientation <= 1 || make_upright(file));
        for (int i = 0; done && i < COMPONENTS; i++)
            done = requantize(file, i, &steps[i > 0], &codes[i ? 3 : 1]);
        done = done && write_file(&out, file, codes);
        for (int i = 0; i < COMPONENTS; i++)
            free(file->component[i].blocks);
        Py_END_ALLOW_THREADS
        if (file->error)
            reason = file->error;
    }
    free(file);
    PyBuffer_Release(&data);
    for (int i = 0; i < 2; i++)
        if (steps[i].obj)
            PyBuffer_Release(&steps[i]);
    PyObject *result = NULL;
    if (done)
        result = PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.size);
    else
        PyErr_Format(PyExc_ValueError, "The JPEG can't be quantised again: %s.", reason);
    free(out.data);
    return result;
}

static PyMethodDef functions[] = {
    {"requantized", requantized, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    WITHOUT_GIL
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_requantize", NULL, 0, functions, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__requantize(void)
{
    return PyModuleDef_Init(&module);
}
