// Reports the tests of one package. This is compiled into package testing, whose functions call it.

package testing

import (
	"strconv"
	"sync"
	"syscall"
	"unicode/utf8"
)

var suite struct {
	mu    sync.Mutex
	end   int
	open  bool
	place string
	whys  map[*common]string
}

func init() {
	text, _ := syscall.Getenv("GO_TEST_REPORT")
	syscall.Unsetenv("GO_TEST_REPORT")
	number, err := strconv.Atoi(text)
	if err != nil || number < 3 {
		return
	}
	syscall.CloseOnExec(number)
	suite.end, suite.open, suite.whys = number, true, map[*common]string{}
}

func quoteReport(text string) string {
	const hex = "0123456789abcdef"
	if len(text) > 3000 {
		text = text[:3000]
	}
	quoted := []byte{'"'}
	for at := 0; at < len(text); {
		char, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case char == utf8.RuneError && size == 1:
			quoted = append(quoted, "\\ufffd"...)
		case char == '"' || char == '\\':
			quoted = append(quoted, '\\', byte(char))
		case char < 0x20:
			quoted = append(quoted, '\\', 'u', '0', '0', hex[char>>4], hex[char&15])
		default:
			quoted = append(quoted, text[at:at+size]...)
		}
		at += size
	}
	return string(append(quoted, '"'))
}

// sendReport sends frames; the caller holds the lock.
func sendReport(frames ...string) {
	var data []byte
	for _, frame := range frames {
		size := len(frame)
		data = append(data, byte(size>>24), byte(size>>16), byte(size>>8), byte(size))
		data = append(data, frame...)
	}
	for suite.open && len(data) > 0 {
		n, err := syscall.Write(suite.end, data)
		if err == syscall.EINTR || err == syscall.EAGAIN {
			continue
		}
		if err != nil || n <= 0 {
			suite.open = false
			return
		}
		data = data[n:]
	}
}

func nameReport(name string) string {
	return quoteReport(suite.place + "::" + name)
}

// reportStart says which tests are going to run.
func reportStart(m *M) {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if !suite.open || *isFuzzWorker {
		return
	}
	suite.place = m.deps.ImportPath()
	matching := newMatcher(m.deps.MatchString, *match, "-test.run", *skip)
	for _, test := range m.tests {
		if _, ok, _ := matching.fullName(nil, test.Name); ok {
			sendReport(`["tests",[` + nameReport(test.Name) + `]]`)
		}
	}
}

func reportEnd(name string, c *common, failed, skipped bool) {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if !suite.open {
		return
	}
	end, why := "passed", ""
	if failed {
		end = "failed"
	} else if skipped {
		end, why = "skipped", suite.whys[c]
	}
	delete(suite.whys, c)
	name = nameReport(name)
	sendReport(`["begin",`+name+`]`, `["end",`+name+`,"`+end+`",`+quoteReport(why)+`]`)
}

func reportTest(c *common) {
	reportEnd(c.name, c, c.Failed(), c.Skipped())
}

func reportSkip(c *common, why string) {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.open {
		suite.whys[c] = why
	}
}

func reportOver(m *M) {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.open && m.exitCode >= 0 && m.exitCode < 256 {
		sendReport(`["over",` + strconv.Itoa(m.exitCode) + `]`)
	}
}
