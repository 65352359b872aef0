package seid

// Forbidden says why a key, as overrides name it, must not be set from outside, or
// nothing.
func Forbidden(key string) string { return forbidden(key) }
