;;; agent-q-approval-display.el --- Requests as text  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The block that asks about a call: what it would do, why that needs a decision, the
;; rule that is offered, and the buttons.  The next request is a block; those behind it are
;; a line each until they are unfolded.  A button is a label that begins with its key; what
;; the keys do is in agent-q-approval.el.

;;; Code:

(require 'agent-q-approval-gate)
(require 'agent-q-call)
(require 'agent-q-json)
(require 'agent-q-render)
(require 'agent-q-review)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)

;;;; Lines and buttons

(defface agent-q-request
  '((((min-colors 256) (background light)) :inherit nil :background "gray92" :extend t)
    (((min-colors 256) (background dark)) :inherit nil :background "gray16" :extend t)
    (t :inherit nil :extend t))
  "The block of a request."
  :group 'agent-q-faces)

(defface agent-q-reason '((t :inherit bold))
  "Why a request needs your decision."
  :group 'agent-q-faces)

(defface agent-q-reason-dangerous '((t :inherit (error bold)))
  "Why a request about something dangerous needs your decision."
  :group 'agent-q-faces)

(defface agent-q-button
  '((((type graphic)) :inherit link :underline nil :box (:line-width (-1 . -1))) (t :inherit link))
  "The buttons of a request."
  :group 'agent-q-faces)

(defconst agent-q-approval-display--indent "    "
  "Prefix of the lines in a request that agent-q itself wrote.")

(defun agent-q-approval-display--line (text &optional face)
  "Return TEXT in FACE as a line of the block that asks.
Where it goes on is further right than where our own lines begin."
  (propertize text 'face (or face 'agent-q-dim)
              'line-prefix agent-q-approval-display--indent
              'wrap-prefix agent-q-call-value-prefix))

(defun agent-q-approval-display--button (label keymap)
  "Return LABEL, such as \"[y] run\", as a button for its key in KEYMAP."
  (let ((command (lookup-key keymap (substring label 1 2))))
    (propertize label 'face 'agent-q-button 'mouse-face 'highlight
                'agent-q-answer command
                'help-echo (documentation command))))

(defun agent-q-approval-display--buttons (labels keymap)
  "Return LABELS, buttons for keys in KEYMAP, as lines.
A line of the window ends between two of them and never within one."
  (let ((width (- (agent-q-call-width) (length agent-q-approval-display--indent)))
        (rows nil) (column 0))
    (dolist (label labels)
      (let ((long (string-width label)))
        (if (and rows (<= (+ column 2 long) width))
            (progn (push label (car rows))
                   (setq column (+ column 2 long)))
          (push (list label) rows)
          (setq column long))))
    (mapconcat (lambda (row)
                 (propertize (mapconcat (lambda (label)
                                          (agent-q-approval-display--button label keymap))
                                        (reverse row) "  ")
                             'line-prefix agent-q-approval-display--indent
                             'wrap-prefix agent-q-call-value-prefix))
               (reverse rows) "\n")))

;;;; The rules that are offered

(cl-defstruct (agent-q-approval-display-offer (:constructor agent-q-approval-display-offer-make) (:copier nil))
  "The rules that a key offered for a call in SCOPE.
WIDTHS are lists (WIDTH RULE DESCRIPTION), the one of most use first; the one
at INDEX is shown.  It stands at the end if that was READ before, else where
reading begins."
  scope widths read (index 0))

(defun agent-q-approval-display-offer-shown (offer)
  "Return the rule of OFFER on the screen, a list (WIDTH RULE DESCRIPTION)."
  (nth (agent-q-approval-display-offer-index offer) (agent-q-approval-display-offer-widths offer)))

(defun agent-q-approval-display--read-p (call)
  "Whether there is a rule in the request for CALL, whose end was read before."
  (and (agent-q-call-offer call)
       (agent-q-approval-display-offer-read (agent-q-call-offer call))))

(defun agent-q-approval-display--offer (call)
  "Return the rule that is offered for CALL as text; empty without one."
  (if-let ((offer (agent-q-call-offer call)))
      (concat
       (agent-q-approval-display--line
        (format "Press %s again to add this rule%s:\n%s\n"
                (if (equal "chat" (agent-q-approval-display-offer-scope offer)) "!" "P")
                (if (cdr (agent-q-approval-display-offer-widths offer))
                    (format " (%d of %d, w shows the next)" (1+ (agent-q-approval-display-offer-index offer))
                            (length (agent-q-approval-display-offer-widths offer)))
                  "")
                (agent-q-text-visible-line (nth 2 (agent-q-approval-display-offer-shown offer)) most-positive-fixnum))
        'agent-q-attention))
    ""))

;;;; Why

(defconst agent-q-approval-display--most-reasons 30
  "Most reasons that are shown on a line each.")

(defun agent-q-approval-display--reasons (text)
  "Return TEXT, the reasons of a request as the core gives them, as a list.
There may be more of them than get a line."
  (let* ((all (split-string text "; +" t))
         (most (1- agent-q-approval-display--most-reasons))
         (rest (nthcdr most all)))
    (append (if (cdr rest) (seq-take all most) all)
            (and (cdr rest) (list (string-join rest "; "))))))

(defun agent-q-approval-display--bare (code)
  "Return CODE without what printing may change: case, packages and blanks."
  (replace-regexp-in-string
   "[ \t\n]+" " "
   (replace-regexp-in-string "[^][ \t\n()'\"`,#:;|]+::?" "" (downcase code))))

(defun agent-q-approval-display--reason (reason form)
  "Return REASON, one of those of a call, in words.
What it quotes of FORM, the code that is shown anyway, is left out."
  (let ((reason (string-trim reason)))
    (cond
     ((string-match "\\`\\([a-z][^:;(]*\\): \\([^] \t\n()\"'`,;|]+\\) in \\((.*)\\)\\'" reason)
      (let ((what (match-string 1 reason)) (operator (match-string 2 reason))
            (quoted (match-string 3 reason)))
        (if (and form (string-search (agent-q-approval-display--bare quoted)
                                     (agent-q-approval-display--bare form)))
            (format "%s (%s)" what operator)
          (format "%s (%s) in %s" what operator quoted))))
     ((string-match "\\`It \\([a-z].*[^.]\\)\\.?\\'" reason) (match-string 1 reason))
     (t reason))))

(defun agent-q-approval-display--capital (text)
  "Return TEXT with its first letter in upper case."
  (if (string-empty-p text) text
    (concat (upcase (substring text 0 1)) (substring text 1))))

(defun agent-q-approval-display--form (call)
  "Return the code among the arguments of CALL, or nil."
  (let ((form (cdr (assq 'form (agent-q-call-parsed-arguments call)))))
    (and (stringp form)
         (<= (length form) agent-q-render-body-limit)
         form)))

(defun agent-q-approval-display--mere-edit-p (call)
  "Whether CALL needs a decision for nothing but the change that its head names."
  (and (agent-q-call-change call)
       (eq (agent-q-call-grounds call) :usual)))

(defun agent-q-approval-display--why (call)
  "Return the level of CALL and the reasons why it needs a decision, as lines.
The reasons may quote the program, whose lines must not look like ours."
  (let* ((form (agent-q-approval-display--form call))
         (level (agent-q-approval-display--capital (or (agent-q-call-level call) "")))
         (face (if (equal "Dangerous" level) 'agent-q-reason-dangerous 'agent-q-reason))
         (most (1- agent-q-approval-display--most-reasons))
         (all (agent-q-approval-display--reasons (or (agent-q-call-reason call) "")))
         (reasons (append
                   (mapcar (lambda (reason)
                             (agent-q-text-visible-line
                              (agent-q-approval-display--reason (agent-q-call-on-one-line reason) form)
                              400))
                           (seq-take all most))
                   ;; The last line may hold all the reasons that are left.
                   (mapcar (lambda (rest) (agent-q-text-visible-line rest agent-q-render-body-limit))
                           (nthcdr most all)))))
    (if (cdr reasons)
        (concat (agent-q-approval-display--line (concat level ":") face)
                (mapconcat (lambda (reason)
                             (concat "\n" (propertize reason 'face face
                                                      'line-prefix "    - "
                                                      'wrap-prefix "        ")))
                           reasons ""))
      (agent-q-approval-display--line
       (concat level (if reasons (concat ": " (car reasons)) ""))
       face))))

(defun agent-q-approval-display-level (call)
  "Return the safety level of CALL as a line, empty where it has none."
  (if (or (agent-q-call-effect-p call) (null (agent-q-call-level call))) ""
    (concat (agent-q-approval-display--capital (agent-q-call-level call)) "\n")))

(defun agent-q-approval-display-all-reasons (call)
  "Return the reasons why CALL needs a decision, uncut, as a paragraph."
  (let* ((text (or (agent-q-call-reason call) ""))
         (reasons (if (agent-q-call-effect-p call) (list text)
                    (split-string text "; +" t))))
    (if reasons
        (concat (propertize "Why it asks\n" 'face 'bold)
                (mapconcat (lambda (reason)
                             (propertize (concat "- " (agent-q-text-visible reason))
                                         'face 'agent-q-dim
                                         'wrap-prefix "  "))
                           reasons "\n")
                "\n\n")
      "")))

;;;; Blocks

(defun agent-q-approval-display--chosen (call)
  "Return what is left of the edit of CALL after its review, a sentence, or nil."
  (pcase (agent-q-review-hunks-touched (agent-q-call-review call))
    (`(,chosen . ,all) (format "As you left its review: %d of %d hunks" chosen all))))

(defun agent-q-approval-display--notes (call body)
  "Return the lines that open the request for CALL.
BODY is what it shows of the arguments."
  (mapconcat (lambda (note)
               (concat "\n" (agent-q-approval-display--line note 'agent-q-attention)))
             (delq nil (list (agent-q-approval-gate-note call)
                             (agent-q-approval-display--chosen call)
                             (and (text-property-not-all 0 (length body) 'agent-q-all nil body)
                                  "Not all of it is shown here; v shows the whole")))
             ""))

(defun agent-q-approval-display--head (call)
  "Return the first line of the request for CALL of a tool."
  (let* ((change (agent-q-call-change call))
         (description (cdr (assq 'description (agent-q-call-parsed-arguments call)))))
    (if change
        (concat (agent-q-call-change-verb change) " " (agent-q-call-change-name change)
                (if (agent-q-call-change-mere-move-p change) ""
                  (concat ": " (agent-q-call-change-counts change)))
                (if (and (stringp description) (not (string-blank-p description)))
                    (concat " " (agent-q-call-text-sign 'dash) " "
                            (agent-q-text-visible-line description))
                  "")
                "?")
      (pcase (agent-q-call-tool call)
        ("run_command" "Run a program?")
        ("fetch_url" "Fetch a page?")
        (tool (format "Run %s?" tool))))))

(defun agent-q-approval-display--body (call)
  "Return what CALL of a tool would do as a part of its request.
A change that is reviewed beside it is not shown here, too."
  (let ((change (agent-q-call-change call)))
    (cond ((not change) (agent-q-call-arguments-body call))
          ((setf (agent-q-call-beside call) (agent-q-review-hunks-visible-p (agent-q-call-review call)))
           "")
          (t (agent-q-call-change-body change)))))

(defun agent-q-approval-display-labels (call)
  "Return the buttons of the request for CALL, each beginning with its key."
  (let* ((effect (agent-q-call-effect-p call))
         (change (agent-q-call-change call))
         (run (cond (effect "allow")
                    (change (downcase (agent-q-call-change-verb change)))
                    (t "run")))
         (seen (length (agent-q-approval-gate-all-read)))
         (waiting (length (agent-q-call-all-waiting))))
    (delq nil
          (list (concat "[y] " run)
                "[n] deny"
                (and (agent-q-call-review call)
                     (not (and change (agent-q-call-change-mere-move-p change)))
                     "[d] review the diff")
                (and (agent-q-call-review call) change
                     (not (or (agent-q-call-file-change-new change)
                              (agent-q-call-change-mere-move-p change)))
                     "[i] in place")
                (format "[!] %s %s" (if effect "allow similar" "always")
                        ;; Another agent has a connection, not a chat.
                        (if agent-q-session-mcp-client "for this agent" "in this chat"))
                (if effect "[P] in this project" "[P] always in this project")
                "[r] deny with a reason"
                (if effect "[s] stop the call" "[e] edit")
                (and effect "[b] backtrace")
                "[v] show all"
                (when-let ((offer (agent-q-call-offer call)))
                  (and (cdr (agent-q-approval-display-offer-widths offer)) "[w] another rule"))
                (and (> seen 1) (format "[Y] %s the %d seen" (if effect "allow" "run") seen))
                (and (> waiting 1) (format "[N] deny all %d" waiting))))))

(defun agent-q-approval-display-block (call keymap)
  "Return the block that asks about CALL, whose keys are in KEYMAP."
  (let* ((effect (agent-q-call-effect-p call))
         (body (if effect (agent-q-call-effect-body call) (agent-q-approval-display--body call))))
    (agent-q-approval-display--frame
     (propertize (concat "? "
                         (if agent-q-session-mcp-client
                             (concat (agent-q-text-visible-line agent-q-session-mcp-client 40) ": ")
                           "")
                         (if effect (agent-q-call-effect-head call) (agent-q-approval-display--head call)))
                 'face 'agent-q-attention 'wrap-prefix agent-q-call-value-prefix)
     (agent-q-approval-display--notes call body)
     (if (or effect (agent-q-approval-display--mere-edit-p call)) ""
       (concat "\n" (agent-q-approval-display--why call)))
     (if-let ((target (agent-q-call-target call)))
         (concat "\n" (agent-q-approval-display--line target))
       "")
     "\n"
     (if (agent-q-approval-display--read-p call) "" (agent-q-approval-display--offer call))
     body
     (if (string-empty-p body) "" "\n")
     (if (agent-q-approval-display--read-p call) (agent-q-approval-display--offer call) "")
     (agent-q-approval-display--end
      (agent-q-approval-display--buttons (agent-q-approval-display-labels call) keymap))
     "\n" (agent-q-approval-display--line (agent-q-approval-display--where call)))))

(defun agent-q-approval-display--frame (&rest parts)
  "Return PARTS, those of a request, as one text with a bar and a band.
The bar takes one of the blanks before each of its lines.  A terminal that
can't draw it has none: other signs stand before what imitates a request."
  (let ((text (apply #'concat parts))
        (bar (propertize (if (char-displayable-p ?▌) "▌" " ") 'face 'agent-q-attention))
        (barred nil))
    (dolist (property '(line-prefix wrap-prefix))
      (let ((place 0))
        (while (< place (length text))
          (let ((prefix (get-text-property place property text))
                (end (or (next-single-property-change place property text) (length text))))
            (when (and (stringp prefix) (string-prefix-p " " prefix))
              ;; Equal ones are one, so that they stay one stretch.
              (unless (assoc prefix barred)
                (push (cons prefix (concat bar (propertize (substring prefix 1) 'face 'agent-q-request)))
                      barred))
              (put-text-property place end property (cdr (assoc prefix barred)) text))
            (setq place end)))))
    (add-face-text-property 0 (length text) 'agent-q-request t text)
    text))

(defun agent-q-approval-display--where (call)
  "Return where the keys answer CALL, as a sentence."
  (if (and (agent-q-call-below call) (not agent-q-session-mcp-client))
      (substitute-command-keys
       "Press a key here; \\<agent-q-chat-mode-map>\\[agent-q-goto-approval] goes to its beginning, \
SPC reads on")
    (concat "Press a key here or at the "
            (cond (agent-q-session-mcp-client "end of the buffer")
                  ;; In the normal state they are Evil's there.
                  ((bound-and-true-p evil-local-mode) "empty prompt in insert state")
                  (t "empty prompt")))))

(defun agent-q-approval-display--end (buttons)
  "Return BUTTONS, marked at their start as the end of what the call would do."
  (put-text-property 0 1 'agent-q-sight-end t buttons)
  buttons)

(defun agent-q-approval-display-folded (call)
  "Return the line of CALL, whose request comes after another one."
  (propertize (agent-q-call-text-waiting call)
              'face 'agent-q-attention 'mouse-face 'highlight
              'help-echo "TAB or mouse: show the whole request"))

(provide 'agent-q-approval-display)
;;; agent-q-approval-display.el ends here
