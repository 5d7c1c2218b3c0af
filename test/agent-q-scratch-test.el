;;; agent-q-scratch-test.el --- Second Lisps, started and thrown away  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Through a chat's tools and each client: what happens in a scratch image costs the user's nothing.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-test-tools)

(defvar slime-net-processes)
(defvar sly-net-processes)
(defvar slime-default-connection)
(defvar sly-default-connection)

(defun agent-q-scratch-test-client ()
  "Return what the user sees of their clients: connections, default and buffers."
  (list (bound-and-true-p slime-net-processes) (bound-and-true-p slime-default-connection)
        (bound-and-true-p sly-net-processes) (bound-and-true-p sly-default-connection)
        (sort (delq nil (mapcar (lambda (buffer)
                                  (and (not (string-prefix-p " " (buffer-name buffer)))
                                       (buffer-name buffer)))
                                (buffer-list)))
              #'string<)
        (current-window-configuration)))

(defun agent-q-scratch-test-process (owner)
  "Return the process of OWNER's scratch image, or nil."
  (let ((lisp (agent-q-scratch--find owner "scratch")))
    (and lisp (agent-q-scratch--lisp-process lisp))))

;; A turn is a message of the user's and what a scripted model does: one call after the other.

(defun agent-q-scratch-test-turn (connection calls &optional meanwhile)
  "Let a model make CALLS in a turn of a new chat about CONNECTION.
Each is a list of a tool and its arguments, an alist.  What needs approval is
approved.  Call MEANWHILE, if non-nil, at each look at the chat, which is the
current buffer.  Return what the calls gave, first one first."
  (agent-q-test-with-model
      (agent-q-json-serialize
       `((turns . ,(vconcat
                    (mapcar (lambda (call)
                              `((steps . [((tool_calls . [((name . ,(car call))
                                                           (arguments . ,(cdr call)))]))])))
                            calls)
                    '(((steps . [((text . "Done."))])))))))
    (agent-q-test-with-chat
      (agent-q-chat-set-connection connection)
      (agent-q-test-send "go")
      (agent-q-test-until
       (progn
         (when meanwhile (funcall meanwhile))
         (when (agent-q-call-waiting) (agent-q-test-answer "y"))
         (agent-q-test-idle-p)))
      (mapcar #'agent-q-call-content
              (cl-remove-if #'agent-q-call-effect-p (agent-q-test-calls))))))

(defconst agent-q-scratch-test-note
  "(In image scratch, a new one, which has nothing of the project loaded. It ends with this turn.)"
  "What stands under the result of the first call.")

(agent-q-test-image-on-each scratch-is-another-lisp ()
  "What is defined in the scratch image is not in the user's, and the user sees nothing of it.
It is gone with the turn."
  (let ((before (agent-q-scratch-test-client))
        (process nil))
    (pcase-let ((`(,defined ,called ,here ,_ ,again)
                 (agent-q-scratch-test-turn
                  connection
                  '(("compile_form" (form . "(defun aq-scratched () 42)") (image . "scratch"))
                    ("eval_form" (form . "(aq-scratched)") (image . "scratch"))
                    ("eval_form" (form . "(fboundp 'aq-scratched)"))
                    ("end_scratch")
                    ("eval_form" (form . "(fboundp 'aq-scratched)") (image . "scratch")))
                  (lambda ()
                    (setq process (or process (agent-q-scratch-test-process (current-buffer))))))))
      (should (string-suffix-p (concat "\n" agent-q-scratch-test-note) defined))
      (should (equal "=> 42\n(In image scratch.)" called))
      (should (string-prefix-p "=> NIL" here))
      (should (equal (concat "=> NIL\n" agent-q-scratch-test-note) again)))
    (should process)
    (should-not (process-live-p process))
    (should-not agent-q-scratch--all)
    (pcase-let ((`(,connections ,default ,sly-connections ,sly-default ,buffers ,windows) before)
                (`(,connections* ,default* ,sly-connections* ,sly-default* ,buffers* ,windows*)
                 (agent-q-scratch-test-client)))
      (should (equal (list connections default sly-connections sly-default)
                     (list connections* default* sly-connections* sly-default*)))
      (should-not (cl-set-difference buffers* buffers :test #'equal))
      (should (compare-window-configurations windows windows*)))))

(agent-q-test-image-on-each scratch-breaks-without-harm ()
  "A loop, a full heap and an end of the scratch image are told; the user's image isn't touched."
  (pcase-let ((`(,loop ,heap ,after ,exit ,new ,here)
               (agent-q-scratch-test-turn
                connection
                '(("eval_form" (form . "(loop)") (timeout . 1) (image . "scratch"))
                  ("eval_form" (form . "(let ((list (list))) (loop (push (make-list 1000) list)))")
                   (image . "scratch"))
                  ("eval_form" (form . "(+ 1 2)") (image . "scratch"))
                  ("eval_form" (form . "(sb-ext:exit :abort t)") (image . "scratch"))
                  ("eval_form" (form . "(+ 3 4)") (image . "scratch"))
                  ("eval_form" (form . "(+ 5 6)"))))))
    (should (string-match-p "timed out after 1 s" loop))
    (should (string-match-p "heap" heap))
    (should (string-prefix-p "=> 3\n" after))
    (should (string-prefix-p "The image scratch ended during the call; the next call with it starts a new one." exit))
    (should (equal (concat "=> 7\n" agent-q-scratch-test-note) new))
    (should (string-prefix-p "=> 11" here))))

(provide 'agent-q-scratch-test)
;;; agent-q-scratch-test.el ends here
