// The two tools by which a model reads outputs of which its context shows only a part.

package contextstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	pb "github.com/contextstore/contextstore/clients/go/contextstorev1"
)

const (
	usualLines   = 200
	mostLines    = 2000
	mostBytes    = 32 << 10
	lineLength   = 2000
	usualMatches = 50
	mostMatches  = 1000
	mostAround   = 1000
)

type readArguments struct {
	RefID  string `json:"ref_id" description:"The ref of the output: out-…, or seq=14"`
	Offset uint64 `json:"offset,omitempty" description:"Lines to skip. Default 0"`
	Limit  uint64 `json:"limit,omitempty" description:"Most lines to read, at most 2000. Default 200"`
}

type grepArguments struct {
	Pattern    string `json:"pattern" description:"A regular expression, as ripgrep takes it"`
	RefID      string `json:"ref_id,omitempty" description:"The ref of one output. Default: all outputs"`
	IgnoreCase bool   `json:"ignore_case,omitempty" description:"Default false"`
	Before     uint32 `json:"before,omitempty" description:"Lines to show before each match. Default 0"`
	After      uint32 `json:"after,omitempty" description:"Lines to show after each match. Default 0"`
	MaxMatches uint64 `json:"max_matches,omitempty" description:"At most 1000. Default 50"`
}

func (t *Task) outputTools() []Tool {
	return []Tool{
		NewTool("tool_output_cache",
			"Reads lines of an output of a tool that was too large to be shown whole. The output is named by the ref_id "+
				"that stands where it was cut. Lines are numbered.", t.readForModel),
		NewTool("tool_output_cache_grep",
			"Searches outputs of tools that were too large to be shown whole for lines that match a regular expression.",
			t.grepForModel),
	}
}

func (t *Task) readForModel(ctx context.Context, asked readArguments) (any, error) {
	limit := asked.Limit
	if limit == 0 {
		limit = usualLines
	}
	body, err := t.Outputs().Read(ctx, &pb.ReadToolOutputRequest{
		RefId: asked.RefID, Offset: asked.Offset, Limit: min(limit, mostLines), MaxLineLength: lineLength,
	})
	if err != nil {
		return nil, inWords(err)
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, mostBytes))
	if err != nil {
		return nil, inWords(err)
	}
	stat, err := t.Outputs().Stat(ctx, asked.RefID)
	if err != nil {
		return nil, inWords(err)
	}
	if last := bytes.LastIndexByte(data, '\n'); len(data) >= mostBytes && last >= 0 {
		data = data[:last+1]
	}
	total := stat.GetRef().GetLineCount()
	if len(data) == 0 {
		return fmt.Sprintf("There are no lines behind %d: the output has %d.", asked.Offset, total), nil
	}
	text := valid(strings.TrimRight(string(data), "\n"))
	read := asked.Offset + uint64(bytes.Count(data, []byte("\n")))
	if !bytes.HasSuffix(data, []byte("\n")) {
		read++
	}
	if read >= total {
		return fmt.Sprintf("%s\n[end: %d lines]", text, total), nil
	}
	return fmt.Sprintf("%s\n[lines %d to %d of %d; offset=%d reads on]", text, asked.Offset+1, read, total, read), nil
}

func (t *Task) grepForModel(ctx context.Context, asked grepArguments) (any, error) {
	most := asked.MaxMatches
	if most == 0 {
		most = usualMatches
	}
	most = min(most, mostMatches)
	request := &pb.GrepToolOutputRequest{
		RefId: asked.RefID, Pattern: asked.Pattern, IgnoreCase: asked.IgnoreCase, Before: min(asked.Before, mostAround),
		After: min(asked.After, mostAround), MaxMatches: most, MaxLineLength: lineLength,
	}
	var out []string
	ref, size, matches := "", 0, uint64(0)
	for line, err := range t.Outputs().Grep(ctx, request) {
		if err != nil {
			return nil, inWords(err)
		}
		if line.GetGapBefore() && len(out) > 0 {
			out = append(out, "--")
		}
		if asked.RefID == "" && line.GetRefId() != ref {
			out = append(out, line.GetRefId()+":")
		}
		ref = line.GetRefId()
		mark := "-"
		if line.GetIsMatch() {
			mark = ":"
			matches++
		}
		shown := fmt.Sprintf("%d%s%s", line.GetLineNumber(), mark, line.GetText())
		out = append(out, shown)
		if size += len(shown); size >= mostBytes {
			return strings.Join(append(out, "[there is more: narrow the pattern, or read the lines]"), "\n"), nil
		}
	}
	if len(out) == 0 {
		return "No line matches.", nil
	}
	end := fmt.Sprintf("[%d matches]", matches)
	if matches >= most {
		end = fmt.Sprintf("[%d matches; there may be more]", matches)
	}
	return strings.Join(append(out, end), "\n"), nil
}

// inWords is an error as a model can use it.
func inWords(err error) error {
	var failure *Error
	if errors.As(err, &failure) {
		return errors.New(failure.Message)
	}
	return err
}
