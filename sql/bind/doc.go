// Package bind turns a syntax tree into meaning.
package bind
