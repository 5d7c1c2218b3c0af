;;; agent-q-changes-line.el --- What a turn changed, under it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Under a turn that changed files, buffers or the image, a line of the log says so, with
;; buttons for the diff and for undoing it, as long as there is something to undo.
;; Unfolded, it is the diff.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-call-change)
(require 'agent-q-changes)
(require 'agent-q-header)
(require 'agent-q-image-changes)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-visible)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(cl-defstruct (agent-q-changes-line (:include agent-q-render-item)
                                    (:constructor agent-q-changes-line--make)
                                    (:copier nil))
  "The line about what TURN changed.
CHANGED is all of it, LEFT what was not undone since.  Both are conses of a
diff of files and buffers, which may be empty, and of definitions in the
image, a list of texts."
  turn changed left)

(defconst agent-q-changes-line--image-tools
  '("eval_form" "eval_in_package" "compile_form" "compile_file" "load_system" "run_tests"
    "eval_in_frame" "invoke_restart" "restart_frame" "return_from_frame")
  "The tools that may change definitions in the image.")

(defvar-local agent-q-changes-line--key 0
  "The greatest key of the calls of the turns that are over.")

(defvar-local agent-q-changes-line--lines nil
  "The lines of this chat.")

(defvar-local agent-q-changes-line--diff ""
  "The latest changes in files that are none of the turn that runs.")

;;;; What there is to undo

(defun agent-q-changes-line--undone-p (line)
  "Whether all that LINE is about was undone."
  (equal (agent-q-changes-line-left line) '("")))

(defun agent-q-changes-line--shown (line)
  "Return the part of LINE to show: what is left, or all where all was undone."
  (if (agent-q-changes-line--undone-p line)
      (agent-q-changes-line-changed line)
    (agent-q-changes-line-left line)))

(defun agent-q-changes-line--keep (turn function)
  "Draw the line of TURN again, after FUNCTION made what is left of what was."
  (when-let ((line (seq-find (lambda (line) (equal turn (agent-q-changes-line-turn line)))
                             agent-q-changes-line--lines)))
    (setf (agent-q-changes-line-left line)
          (funcall function (agent-q-changes-line-left line)))
    ;; It may have gone with a part of the log.
    (when (eq line (agent-q-render-item-at (agent-q-render-item-start line)))
      (agent-q-render-update-item line))))

(defun agent-q-changes-line-undone (number left)
  "Show that the turn NUMBER was undone in files, but for a rest of LEFT."
  (agent-q-changes-line--keep
   (agent-q-changes-turn number)
   (lambda (was)
     (cons (if (= left 0) "" (agent-q-core-changes agent-q-session-number))
           (cdr was)))))

(defun agent-q-changes-line--undone-in-image (turn)
  "Ask the image how much of TURN is left there, and show that in its line."
  (let ((chat (current-buffer)))
    (agent-q-changes-definitions
     turn agent-q-session-connection
     (lambda (definitions)
       (when (buffer-live-p chat)
         (with-current-buffer chat
           (agent-q-changes-line--keep turn (lambda (was) (cons (car was) definitions)))))))))

(add-hook 'agent-q-changes-undone-functions #'agent-q-changes-line--undone-in-image)

;;;; Drawing

(defun agent-q-changes-line--button (label function)
  "Return the button LABEL for FUNCTION."
  (make-text-button (copy-sequence label) nil 'follow-link t
                    'action (lambda (_button) (funcall function))))

(defun agent-q-changes-line--what (line room)
  "Return what the turn of LINE changed, as text of ROOM columns; files come first.
What doesn't fit is counted, and shows when the line is unfolded."
  (let* ((what (agent-q-changes-line--shown line))
         (parts (mapcar (lambda (part) (agent-q-visible-line part 400))
                        (append (agent-q-changes-files (car what)) (cdr what))))
         (count (length parts))
         (shown count)
         (text (string-join parts ", ")))
    (while (and (> (string-width text) room) (> shown 1))
      (setq shown (1- shown)
            text (format "%s and %d more (TAB)" (string-join (seq-take parts shown) ", ")
                         (- count shown))))
    (agent-q-call-cut text room)))

(defun agent-q-changes-line--draw (line)
  "Return the text of LINE."
  (let* ((undone (agent-q-changes-line--undone-p line))
         (buttons (if undone ""
                    (concat "  "
                            (agent-q-changes-line--button
                             "[Diff]" (lambda () (agent-q-changes-line--show line)))
                            " "
                            (agent-q-changes-line--button
                             "[Undo]" (lambda () (agent-q-changes-line--undo line))))))
         (said (cond (undone " (undone)")
                     ((equal (agent-q-changes-line-left line) (agent-q-changes-line-changed line))
                      "")
                     (t " (the rest is undone)")))
         (head (concat (agent-q-render-fold-sign line) " Changed "))
         (room (- (agent-q-call-width) (length head) (length said) (length buttons))))
    (concat (propertize (concat head (agent-q-changes-line--what line (max 10 room)) said)
                        'face 'agent-q-dim)
            buttons
            (if (not (agent-q-render-item-expanded line)) ""
              (concat "\n" (agent-q-changes-line--body line))))))

(defun agent-q-changes-line--body (line)
  "Return the body of LINE, which is unfolded."
  (pcase-let ((`(,diff . ,definitions) (agent-q-changes-line--shown line)))
    (string-join
     (delq nil
           (list (and (not (string-empty-p diff))
                      (agent-q-call-change-diff-body (string-trim-right diff)))
                 (and definitions
                      (agent-q-render-body
                       (concat "In the image: " (string-join definitions ", "))
                       #'agent-q-visible))))
     "\n")))

;;;; The buttons

(defun agent-q-changes-line--show (line)
  "Show what the turn of LINE changed, as a diff or as a list of definitions."
  (let ((diff (car (agent-q-changes-line-left line))))
    (if (string-empty-p diff)
        (agent-q-image-changes)
      (agent-q-changes-show diff (current-buffer)))))

(defun agent-q-changes-line--undo (line)
  "Undo what the turn of LINE changed, if the user agrees."
  (pcase-let ((`(,diff . ,definitions) (agent-q-changes-line-left line))
              (turn (agent-q-changes-line-turn line)))
    (cond ((agent-q-header-busy-p)
           (user-error "A turn is running; its changes can be undone when it ends"))
          ((string-empty-p diff)
           (agent-q-changes-undo-image turn definitions))
          ((equal diff (agent-q-core-changes agent-q-session-number))
           (agent-q-changes-undo turn diff definitions))
          (t (user-error "Undo the later turn or rewind first")))))

;;;; Telling

(defun agent-q-changes-line--calls ()
  "Return what the turn called and got a result of."
  (let ((calls nil) (before agent-q-changes-line--key))
    (maphash (lambda (key call)
               (when (> key before)
                 (setq agent-q-changes-line--key (max key agent-q-changes-line--key))
                 (when (memq (agent-q-call-state call) '(succeeded failed cancelled))
                   (push call calls))))
             agent-q-call-table)
    calls))

(defun agent-q-changes-line-begin ()
  "Note what was changed last, before a turn begins.
What was undone or rewound since the line of a turn before is not its change."
  (when (and agent-q-session-number (not (string-empty-p agent-q-changes-line--diff)))
    (setq agent-q-changes-line--diff (agent-q-core-changes agent-q-session-number))))

(defun agent-q-changes-line-tell ()
  "Show under the turn that ended what it changed, if it did."
  (when-let ((calls (and agent-q-session-number (agent-q-changes-line--calls))))
    (let ((diff (agent-q-core-changes agent-q-session-number))
          (turn agent-q-session-turn)
          (chat (current-buffer))
          (image (seq-some (lambda (call)
                             (member (agent-q-call-tool call) agent-q-changes-line--image-tools))
                           calls)))
      (setq diff (if (equal diff agent-q-changes-line--diff) ""
                   (setq agent-q-changes-line--diff diff)))
      (if (not (and image agent-q-session-turn-used))
          (agent-q-changes-line--add turn diff nil)
        ;; A character before the end: what is added there would take the end along.
        (let ((place (copy-marker (1- agent-q-render-end))))
          (agent-q-changes-definitions
           turn agent-q-session-connection
           (lambda (definitions)
             (when (buffer-live-p chat)
               (with-current-buffer chat
                 (agent-q-changes-line--add turn diff definitions place)
                 (set-marker place nil))))))))))

(defun agent-q-changes-line--add (turn diff definitions &optional place)
  "Add the line about TURN, which changed DIFF and DEFINITIONS.
There is none if both are empty.  It stands under the turn, which ended
before PLACE, a marker: the next one may have begun since."
  (unless (or (and (string-empty-p diff) (null definitions))
              (not agent-q-session-number))
    (let* ((what (cons diff definitions))
           (line (agent-q-changes-line--make :draw #'agent-q-changes-line--draw :turn turn
                                             :changed what :left what))
           (add (lambda () (agent-q-render-add-item line))))
      (push line agent-q-changes-line--lines)
      (if (and place (< (1+ place) agent-q-render-end))
          (agent-q-render-above (1+ place) add)
        (funcall add)))))

(provide 'agent-q-changes-line)
;;; agent-q-changes-line.el ends here
