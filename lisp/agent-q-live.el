;;; agent-q-live.el --- Places and values in the texts of a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Texts in the log name places in files, values that the image keeps for the chat, and errors that are
;; held in the debugger.  This file finds them in a text and gives them their looks and keys.  What
;; the keys do, and names of Lisp, are in agent-q-names.el.

;;; Code:

(require 'seq)
(require 'subr-x)

(defface agent-q-live '((t :inherit link))
  "Places, values and errors in the log that a key or a click goes to."
  :group 'agent-q-faces)

(defvar agent-q-live-map
  (let ((map (make-sparse-keymap)))
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on what is alive in the log of a chat.
agent-q-names.el puts its commands there.")

;; The text property `agent-q-live' says what a stretch of text stands for: a list of one of these
;; kinds, and what agent-q-names.el needs to go there.

(defconst agent-q-live--helps
  '((place . "RET: go there") (value . "RET: inspect it") (error . "RET: open it in your debugger")
    (kept . "RET: open your debugger on this error")
    (restart . "RET: leave the error by this restart")
    (connect . "RET: connect a Lisp image")
    (name . "RET: go to its definition"))
  "What is said of each kind under the mouse.")

(defun agent-q-live-put (start end thing &optional text help)
  "Make what is from START to END of TEXT, or of the buffer, stand for THING.
HELP is shown before what RET does there.  In a buffer it has its keys, too."
  (add-text-properties
   start end
   `(agent-q-live ,thing mouse-face highlight
     help-echo ,(concat help (and help "; ") (alist-get (car thing) agent-q-live--helps))
     ,@(unless text (list 'keymap agent-q-live-map)))
   text))

(defun agent-q-live-put-keymap (text keymap)
  "Give what is alive in TEXT, a new string, KEYMAP; return TEXT."
  (let ((live 0))
    (while (setq live (text-property-not-all live (length text) 'agent-q-live nil text))
      (let ((end (or (next-single-property-change live 'agent-q-live text) (length text))))
        (put-text-property live end 'keymap keymap text)
        (setq live end))))
  text)

;;;; Finding them

(defconst agent-q-live--outside "][ \t\n()<>{}\"'`,;:|=*"
  "Characters that aren't part of the name of a file in a text.")

(defconst agent-q-live--patterns
  (let ((handle "\\(?1:[sv][0-9]+\\)"))
    `((place . "[^./]\\.[[:alpha:]][[:alnum:]]\\{0,7\\}:\\(?2:[0-9]+\\)\\(?::\\(?3:[0-9]+\\)\\)?\\_>")
      (value . ,(concat "\\[" handle "\\]"))
      (value . ,(concat "\\$" handle "\\_>"))
      (value . ,(concat "^" handle ": "))
      (error . "\\_<debugger \\(?1:d[0-9]+\\)\\_>")))
  "Regexps of what is alive, by kind.
The groups are a name, or a line and a column behind the end of a file's
name.  A regexp with all of the name would try each of its characters.")

(defun agent-q-live--match (kind text)
  "Return what the last match, of the regexp for KIND in TEXT, stands for.
The value is a list of its start, its end and what is there, or nil."
  (let ((number (lambda (group)
                  (and (match-beginning group) (string-to-number (match-string group text))))))
    (if (not (eq kind 'place))
        (list (match-beginning 1) (match-end 1) (list kind (match-string-no-properties 1 text)))
      (let ((start (match-beginning 0)) (end (1- (match-beginning 2))))
        (while (and (> start 0)
                    (not (seq-contains-p agent-q-live--outside (aref text (1- start)))))
          (setq start (1- start)))
        (unless (seq-contains-p agent-q-live--outside (aref text (match-beginning 0)))
          (list start (match-end 0)
                (list 'place (substring-no-properties text start end)
                      (funcall number 2) (funcall number 3))))))))

(defun agent-q-live--find (text)
  "Return what is alive in TEXT: lists of a start, an end and what is there."
  (let ((found nil) (case-fold-search nil))
    (pcase-dolist (`(,kind . ,regexp) agent-q-live--patterns)
      (let ((from 0))
        (while (string-match regexp text from)
          (setq from (match-end 0))
          (push (agent-q-live--match kind text) found))))
    (append (agent-q-live--find-restarts text) (delq nil found))))

(defun agent-q-live--find-restarts (text)
  "Return the restarts of the parked error in TEXT, as `agent-q-live--find' does.
They are told as NAME (what it does), with commas between them, some with
their numbers."
  (when-let* ((place (and (string-match "^Restarts: " text) (match-end 0)))
              (end (or (string-search "\n" text place) (length text)))
              (debugger (and (string-match "\\_<debugger\\(?: \\|: \\)\\(d[0-9]+\\)" text)
                             (match-string-no-properties 1 text))))
    (let ((found nil) (number 0))
      (while (and place (< place end) (string-match "\\(?:[0-9]+ \\)?\\([^ (),\n]+\\)" text place))
        (push (list (match-beginning 1) (match-end 1) (list 'restart debugger number)) found)
        (setq number (1+ number)
              place (agent-q-live--after-comma text (match-end 0) end)))
      found)))

(defun agent-q-live--after-comma (text place end)
  "Return the place in TEXT after the next comma from PLACE on, before END.
It is nil where there is none.  What is in parentheses is passed over."
  (let ((depth 0) (after nil))
    (while (and (not after) (< place end))
      (pcase (aref text place)
        (?\( (setq depth (1+ depth)))
        (?\) (setq depth (1- depth)))
        (?, (when (= depth 0) (setq after (+ 2 place)))))
      (setq place (1+ place)))
    after))

(defun agent-q-live-mark (text)
  "Dress what is alive in TEXT, a new string, and return TEXT.
What has keys of its own is left alone."
  (pcase-dolist (`(,start ,end ,thing) (agent-q-live--find text))
    (unless (text-property-not-all start end 'keymap nil text)
      (agent-q-live-put start end thing text)
      (add-face-text-property start end 'agent-q-live nil text)))
  text)

(defun agent-q-live-mark-here (start end file-p)
  "Dress what is alive in this buffer from START to END.
What stands for something already is left alone, and so are places in files
that FILE-P returns nil for: prose has names of hosts, too."
  (pcase-dolist (`(,from ,to ,thing) (agent-q-live--find (buffer-substring-no-properties start end)))
    (let ((from (+ start from)) (to (+ start to)))
      (unless (or (seq-some (lambda (property) (text-property-not-all from to property nil))
                            '(agent-q-live agent-q-link agent-q-code))
                  (and (eq 'place (car thing)) (not (funcall file-p (cadr thing)))))
        (agent-q-live-put from to thing)
        (add-face-text-property from to 'agent-q-live)))))

(defun agent-q-live-place-at-point ()
  "Return the place that is written at point, or nil.
It is as in the property `agent-q-live'.  There may be no such file."
  (let ((column (- (point) (line-beginning-position))))
    (seq-some (pcase-lambda (`(,start ,end ,thing))
                (and (eq 'place (car thing)) (<= start column (1- end)) thing))
              (agent-q-live--find (buffer-substring-no-properties
                                   (line-beginning-position) (line-end-position))))))

(provide 'agent-q-live)
;;; agent-q-live.el ends here
