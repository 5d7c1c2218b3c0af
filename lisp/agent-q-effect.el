;;; agent-q-effect.el --- What running code is about to do, in words  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Code that runs in the image stops where it is about to delete a file, to run a
;; program and the like, and the user is asked.  Such a question is in the log
;; like a call of a tool whose name begins with "effect/"; here is what is said
;; about it.  All of it comes from the image, so nothing of it can look like a
;; line of ours.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-visible)

;;;; What it is

(defun agent-q-effect--argument (call name)
  "Return the argument NAME, a symbol, of CALL as a text, or nil."
  (let ((value (cdr (assq name (agent-q-call-parsed-arguments call)))))
    (and (stringp value)
         ;; The image may write down that it knows none.
         (not (member value '("" "NIL" "nil")))
         value)))

(defun agent-q-effect--objects (call)
  "Return what the effect CALL acts on, conses of a word for it and its name."
  (let ((files (or (agent-q-effect--argument call 'files)
                   (agent-q-effect--argument call 'file)))
        (target (agent-q-effect--argument call 'target))
        (program (agent-q-effect--argument call 'program)))
    (cond (files (mapcar (lambda (file) (cons "file" file))
                         (split-string files "\n" t)))
          ;; The words have its target.  What is in the system's own directories is what it
          ;; is called.
          (program (unless (member (file-name-directory program) '("/bin/" "/usr/bin/"))
                     (list (cons "program" program))))
          (target (list (cons "target" target))))))

(defun agent-q-effect--whole-words (call)
  "Return what the effect CALL is about to do, in the image's words."
  (let ((words (agent-q-call-reason call)))
    (if (and words (not (string-blank-p words)))
        words
      (string-join (cons (agent-q-registry-effect-words (agent-q-call-tool call))
                         (mapcar #'cdr (agent-q-effect--objects call)))
                   " "))))

(defun agent-q-effect-words (call)
  "Return what the effect CALL is about to do, such as \"delete /tmp/a\", as a line."
  (agent-q-visible-line (agent-q-effect--whole-words call)))

;;;; The request

(defun agent-q-effect-head (call)
  "Return the first line of the request for the effect CALL."
  (concat "A running call wants to " (agent-q-effect-words call)))

(defun agent-q-effect--part (text)
  "Return TEXT, a line, as a part of a request."
  (propertize text 'line-prefix "    " 'wrap-prefix agent-q-call-value-prefix))

(defun agent-q-effect--origin (call)
  "Return where the effect CALL comes from as a line, or nil."
  (let ((function (agent-q-effect--argument call 'function))
        (form (agent-q-effect--argument call 'form)))
    (and (or function form)
         (concat (if function (concat "by " (agent-q-visible-line function)) "")
                 (if (and function form) ", " "")
                 (if form
                     (concat "in " (agent-q-visible-line (agent-q-call-on-one-line form)))
                   "")))))

(defun agent-q-effect--unsaid (call)
  "Return what the words of the effect CALL leave out, as lines, or nil."
  (let ((words (agent-q-effect--whole-words call)))
    (when-let ((left (seq-remove (lambda (object) (string-search (cdr object) words))
                                 (agent-q-effect--objects call))))
      (propertize
       (agent-q-render-body
        (mapconcat (pcase-lambda (`(,what . ,name))
                     (format "%s: %s" what (agent-q-visible-line name most-positive-fixnum)))
                   left "\n"))
       'wrap-prefix agent-q-call-value-prefix))))

(defun agent-q-effect--long-words (call)
  "Return all words of the effect CALL if its head can't show them, or nil."
  (let ((words (agent-q-effect--whole-words call)))
    (and (> (length words) agent-q-visible-line-limit)
         (concat (agent-q-effect--part "all of it:\n")
                 (propertize (agent-q-render-body words #'agent-q-visible)
                             'line-prefix agent-q-call-value-prefix
                             'wrap-prefix agent-q-call-value-prefix)))))

(defconst agent-q-effect--usual-threads '("worker" "slynk-worker")
  "What the threads are called in which clients have code run.")

(defun agent-q-effect--thread (call)
  "Return the thread of the effect CALL if it is none of the usual, or nil."
  (let ((thread (agent-q-effect--argument call 'thread)))
    (and (not (member thread agent-q-effect--usual-threads))
         thread)))

(defun agent-q-effect-body (call)
  "Return the part under the head of the request for the effect CALL."
  (let ((origin (agent-q-effect--origin call))
        (thread (agent-q-effect--thread call)))
    (string-join
     (delq nil
           (list (agent-q-effect--long-words call)
                 (agent-q-effect--unsaid call)
                 (and origin (agent-q-effect--part origin))
                 (and thread
                      (agent-q-effect--part
                       (concat "in the thread " (agent-q-visible-line thread))))))
     "\n")))

;;;; In the log

(defun agent-q-effect--state (call)
  "Return what became of the effect CALL, as the end of its line."
  (let* ((answered (agent-q-call-answered call))
         (said (lambda (beginning)
                 (and answered (string-prefix-p beginning answered)
                      (agent-q-visible-line answered)))))
    (pcase (agent-q-call-state call)
      ('proposed (propertize (agent-q-render-sign 'ellipsis) 'face 'agent-q-dim))
      ('waiting (propertize (agent-q-visible-line answered) 'face 'agent-q-dim))
      ((or 'running 'succeeded)
       (propertize (or (funcall said "allowed") "allowed") 'face 'agent-q-success))
      ((and (or 'denied 'cancelled) (guard (funcall said "stopped")))
       (propertize answered 'face 'agent-q-failure))
      ;; An approval handler may have stopped it, or the user the whole turn.
      ((and 'cancelled (guard (string-search "stopped" (or (agent-q-call-content call) ""))))
       (propertize "stopped" 'face 'agent-q-failure))
      ('cancelled (propertize "withdrawn" 'face 'agent-q-dim))
      (state
       (propertize
        (let ((trouble (agent-q-call-trouble call))
              (label (if (eq state 'denied) "denied" "failed")))
          (cond ((and trouble (not (equal trouble label))) (concat label ": " trouble))
                ((funcall said label))
                (t label)))
        'face 'agent-q-failure)))))

(defun agent-q-effect-line (call)
  "Return the line that stands for the effect CALL, which is no longer waiting.
What became of it matters more than all of its words."
  (let* ((sign (concat (agent-q-render-fold-sign call) " "))
         (room (- (agent-q-call-width) (string-width sign) 2))
         (words (agent-q-effect-words call))
         (state (agent-q-effect--state call))
         (least (min (string-width words) (/ room 2)))
         (state (agent-q-call-cut state (- room least))))
    (concat sign
            (propertize (agent-q-call-cut words (- room (string-width state)))
                        'face 'agent-q-tool)
            "  " state)))

(defun agent-q-effect-waited-for-p (call)
  "Whether the running CALL waits for the answer to a request in this chat.
The core doesn't say whose effect it is, so that is unknown if several run."
  (and (not (cdr (agent-q-call-running)))
       (eq call (car (agent-q-call-running)))
       (seq-some #'agent-q-call-effect-p (agent-q-call-all-waiting))))

;;;; Looking closer

(defun agent-q-effect-backtrace (call)
  "Show the backtrace of the code that CALL, an effect, is about."
  (let ((text (concat (propertize (agent-q-effect-words call) 'face 'agent-q-attention)
                      "\n" (or (agent-q-effect--origin call) "")
                      "\n\n" (agent-q-visible
                              (or (agent-q-effect--argument call 'backtrace)
                                  "The image sent no backtrace."))
                      "\n")))
    (with-current-buffer (agent-q-render-visit "*agent-q backtrace*" text)
      (setq truncate-lines t))))

(provide 'agent-q-effect)
;;; agent-q-effect.el ends here
