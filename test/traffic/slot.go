package traffic

import "strconv"

const slotCount = 16384

// tagIn is a hash tag whose slot is from first to below end.
func tagIn(first, end int) string {
	for i := 0; ; i++ {
		tag := "w" + strconv.Itoa(i)
		if slot := slotOf(tag); slot >= first && slot < end {
			return tag
		}
	}
}

// slotOf is the CRC16 (XMODEM) of a text, modulo the number of slots.
func slotOf(text string) int {
	crc := uint16(0)
	for i := range len(text) {
		crc ^= uint16(text[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slotCount
}
