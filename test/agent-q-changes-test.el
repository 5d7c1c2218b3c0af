;;; agent-q-changes-test.el --- Undoing a turn, in files and in the image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Turns that change a file, a real image or both are undone; what came of it
;; is in the file, in the image, and in what the model is sent next.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-changes)

(defun agent-q-changes-test--undo (&optional offer)
  "Undo the latest turn of this chat and return what is shown of it.
Wait for the OFFER to undo definitions, a regexp, or by default a while for none."
  (let ((start (copy-marker agent-q-render-end)))
    (agent-q-undo-turn)
    (agent-q-test-until (string-match-p (or offer "Undone\\|Nothing to undo\\|No files were")
                                        (buffer-substring start agent-q-render-end)))
    (unless offer
      (accept-process-output nil 0.2))
    (buffer-substring-no-properties start agent-q-render-end)))

(defun agent-q-changes-test--press ()
  "Press the button of the latest offer, and wait for the image's word."
  (let ((start (copy-marker agent-q-render-end)))
    (goto-char (point-max))
    (search-backward "[Undo]")
    (cl-letf (((symbol-function 'y-or-n-p) #'always))
      (push-button))
    (agent-q-test-until (> agent-q-render-end start))
    (goto-char (point-max))
    (buffer-substring-no-properties start agent-q-render-end)))

(defmacro agent-q-changes-test--with-chat (turns &rest body)
  "Run BODY in a chat about CONNECTION whose model plays TURNS.
Its project is a new directory, DIRECTORY."
  (declare (indent 1) (debug t))
  `(let* ((directory (file-name-as-directory
                      (file-truename (make-temp-file
                                      (expand-file-name "project" agent-q-test-directory) t))))
          (default-directory directory)
          (agent-q-offered-tools 'all))
     (agent-q-test-image-values connection "(setf agent-q-image::*journal* '())")
     (agent-q-test-image-values connection "(fmakunbound 'cl-user::aq-undone)")
     (agent-q-test-with-model (agent-q-json-encode (list :turns (vconcat ,turns)))
       (agent-q-test-with-chat
         (agent-q-chat-set-connection connection)
         ,@body))))

(defun agent-q-changes-test--calls (&rest calls)
  "Return a step of the model that makes CALLS, lists of a name and arguments."
  `(:steps [(:tool_calls ,(vconcat (mapcar (pcase-lambda (`(,name . ,arguments))
                                             `(:name ,name :arguments ,arguments))
                                           calls)))]))

(defconst agent-q-changes-test--said '(:steps [(:text "Done.")])
  "The end of a turn.")

(defun agent-q-changes-test--turn (text)
  "Send TEXT, say yes to all, and wait for the end of the turn."
  (agent-q-test-send text)
  (while (progn (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
                (agent-q-call-waiting))
    (agent-q-test-answer "y")))

(defun agent-q-changes-test--changing-turn (text)
  "Send TEXT, and wait for the end of the turn and the line on what it changed.
The line asks the image, and comes after what is undone at once."
  (let ((lines (how-many "Changed " (point-min) (point-max))))
    (agent-q-changes-test--turn text)
    (agent-q-test-until (< lines (how-many "Changed " (point-min) (point-max))))))

(defun agent-q-changes-test--last-message ()
  "Return the last message that the model was sent."
  (let* ((line (with-temp-buffer
                 (insert-file-contents agent-q-test-requests)
                 (goto-char (point-max))
                 (forward-line -1)
                 (buffer-substring (point) (line-end-position))))
         (messages (gethash "messages" (gethash "body" (agent-q-json-parse line)))))
    (gethash "content" (aref messages (1- (length messages))))))

(agent-q-test-image-on-each undoing-a-turn-offers-what-it-did-to-the-image ()
  "Files come back at once, definitions by a button; the model is told of both."
  (agent-q-changes-test--with-chat
      (list (agent-q-changes-test--calls
             '("create_file" :path "new.txt" :content "x\n")
             '("eval_form" :form "(defun cl-user::aq-undone () 1)"))
            agent-q-changes-test--said agent-q-changes-test--said agent-q-changes-test--said)
    (agent-q-changes-test--changing-turn "do it")
    (should (file-exists-p (expand-file-name "new.txt" directory)))
    (let ((shown (agent-q-changes-test--undo "AQ-UNDONE.*\n?.*\\[Undo\\]")))
      (should (string-match-p "Undone:\n- new\\.txt.*\n" shown))
      (should-not (string-search "still has" shown))
      (should (string-match-p "AQ-UNDONE (function, new)" shown)))
    (should (agent-q-test-shows "Changed AQ-UNDONE (function, new) (the rest is undone)  [Diff] [Undo]\n"))
    (should-not (file-exists-p (expand-file-name "new.txt" directory)))
    ;; Nothing in the image changes unasked.
    (should (equal '("1") (agent-q-test-image-values connection "(cl-user::aq-undone)")))
    (should (string-match-p "AQ-UNDONE: removed the new function"
                            (agent-q-changes-test--press)))
    (should (equal '("NIL") (agent-q-test-image-values connection "(fboundp 'cl-user::aq-undone)")))
    (agent-q-changes-test--turn "go on")
    (let ((told (agent-q-changes-test--last-message)))
      (should (string-match-p "\\`go on\n\n\\[agent-q: The user undid some of your changes" told))
      (should (string-match-p "changes\\. Undone:\n- new\\.txt.*\nRead these files again before you go on\\.\nThe user had definitions undone .*:\n<data-[^>]*>\n.*AQ-UNDONE: removed .*\\.\n</data-"
                              told))
      ;; Only the outcome is told.
      (should-not (string-search "still" told)))
    (agent-q-test-until (agent-q-test-shows "Changed new.txt (new) +1 -0, AQ-UNDONE (function, new) (undone)\n"))
    (agent-q-test-find "[Undo]")
    (should-not (button-at (point)))
    (goto-char (point-max))
    (should-not (agent-q-test-shows "agent-q: The user undid"))
    ;; Once is enough.
    (agent-q-changes-test--turn "and on")
    (should (equal "and on" (agent-q-changes-test--last-message)))))

(defun agent-q-changes-test--file-then-function ()
  "Return what a model answers that makes a file in one turn and a function in the next."
  (list (agent-q-changes-test--calls '("create_file" :path "new.txt" :content "x\n"))
        agent-q-changes-test--said
        (agent-q-changes-test--calls '("eval_form" :form "(defun cl-user::aq-undone () 1)"))
        agent-q-changes-test--said))

(agent-q-test-image-on-each undoing-never-skips-to-an-older-turn ()
  "A turn that changed the image alone is undone before the file of the turn before it."
  (agent-q-changes-test--with-chat
      (agent-q-changes-test--file-then-function)
    (agent-q-changes-test--changing-turn "a file")
    (agent-q-changes-test--changing-turn "a function")
    (should (string-match-p "No files were.*\n.*AQ-UNDONE"
                            (agent-q-changes-test--undo "AQ-UNDONE.*\n?.*\\[Undo\\]")))
    (should (file-exists-p (expand-file-name "new.txt" directory)))
    (agent-q-changes-test--press)
    (let ((shown (agent-q-changes-test--undo)))
      (should (string-match-p "Undone:\n- .*" shown))
      (should-not (string-match-p "AQ-UNDONE" shown)))
    (should-not (file-exists-p (expand-file-name "new.txt" directory)))))

(agent-q-test-image-on-each what-another-chat-changed-since-is-left-alone ()
  "A turn takes back its own changes, and not those on top of them."
  (agent-q-changes-test--with-chat
      (list (agent-q-changes-test--calls '("eval_form" :form "(defun cl-user::aq-undone () 1)"))
            agent-q-changes-test--said)
    (agent-q-changes-test--changing-turn "a function")
    (agent-q-test-image-value connection "eval-form" :form "(defun cl-user::aq-undone () 2)"
                              :turn "another/1/1")
    (agent-q-changes-test--undo "AQ-UNDONE.*\n?.*\\[Undo\\]")
    (should (string-match-p "left alone: it was changed again" (agent-q-changes-test--press)))
    (should (agent-q-test-shows "Changed AQ-UNDONE (function, new)  [Diff] [Undo]\n"))
    (should (equal '("2") (agent-q-test-image-values connection "(cl-user::aq-undone)")))))

(agent-q-test-image-on-each undoing-files-says-that-the-image-has-them-loaded ()
  "User and model are told, and a button loads the restored files."
  (agent-q-changes-test--with-chat
      (list (agent-q-changes-test--calls
             '("edit_file" :path "aq-sys.lisp" :old_str "(defun aq-sys () :old)"
               :new_str "(defun aq-sys () :new)\n(defun (setf aq-more) (x) x)")
             '("load_system" :system "aq-sys"))
            agent-q-changes-test--said agent-q-changes-test--said
            (agent-q-changes-test--calls
             '("edit_file" :path "aq-sys.lisp" :old_str ":old" :new_str ":new")
             '("load_system" :system "aq-sys"))
            agent-q-changes-test--said agent-q-changes-test--said)
    (write-region "(asdf:defsystem \"aq-sys\" :components ((:file \"aq-sys\")))\n" nil
                  (expand-file-name "aq-sys.asd" directory) nil 'silent)
    (write-region "(in-package :cl-user)\n(defun aq-sys () :old)\n" nil
                  (expand-file-name "aq-sys.lisp" directory) nil 'silent)
    (agent-q-test-image-directly
     connection (format "(progn (require :asdf) (asdf:clear-system \"aq-sys\") (asdf:load-asd %S) t)"
                        (expand-file-name "aq-sys.asd" directory)))
    (cl-flet ((value () (agent-q-test-image-directly connection "(funcall 'cl-user::aq-sys)")))
      (agent-q-changes-test--changing-turn "mend it")
      (should (equal ":NEW" (value)))
      (let ((words "The image still has what was loaded from them; load_system aq-sys loads the restored files\\. Definitions that they no longer have stay: aq-more\\."))
        (should (string-match-p (concat "Undone:\n- aq-sys\\.lisp.*\n" words)
                                (agent-q-changes-test--undo "\\[Load the restored files\\]")))
        (should (equal ":NEW" (value)))
        (agent-q-changes-test--turn "go on")
        (should (string-match-p words (agent-q-changes-test--last-message))))
      (agent-q-test-find "[Load the restored files]")
      (push-button)
      (agent-q-test-until (agent-q-test-shows "/load_system aq-sys"))
      (while (progn (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
                    (agent-q-call-waiting))
        (agent-q-test-answer "y"))
      (should (equal ":OLD" (value)))
      ;; What was loaded before the model is told is no news.
      (agent-q-changes-test--changing-turn "mend it again")
      (agent-q-changes-test--undo "\\[Load the restored files\\]")
      (goto-char (point-max))
      (search-backward "[Load the restored files]")
      (push-button)
      (agent-q-test-until (agent-q-call-waiting))
      (agent-q-test-answer "y")
      (agent-q-test-until (agent-q-test-idle-p))
      (should (equal ":OLD" (value)))
      (agent-q-changes-test--turn "go on")
      (let ((told (agent-q-changes-test--last-message)))
        (should (string-search "Undone:\n- aq-sys.lisp" told))
        (should-not (string-search "still has" told))))))

(agent-q-test-image-on-each undoing-a-system-offers-none-that-is-gone ()
  "A system that the turn itself has made can't be loaded any more."
  (agent-q-changes-test--with-chat
      (list (agent-q-changes-test--calls
             '("create_file" :path "aq-made.asd"
               :content "(asdf:defsystem \"aq-made\" :components ((:file \"aq-made\")))\n")
             '("create_file" :path "aq-made.lisp" :content "(in-package :cl-user)\n(defun aq-made () 1)\n")
             '("load_system" :system "aq-made"))
            agent-q-changes-test--said agent-q-changes-test--said)
    (agent-q-test-image-directly connection "(progn (require :asdf) t)")
    (agent-q-changes-test--changing-turn "make it")
    (should (equal "1" (agent-q-test-image-directly connection "(funcall 'cl-user::aq-made)")))
    (let ((shown (agent-q-changes-test--undo "\nWhat was loaded into the image stays there\\.")))
      (should-not (string-search "load_system aq-made loads" shown))
      (should-not (string-search "[Load the restored files]" shown)))))

;;;; The line under a turn

(agent-q-test-image-on-each what-the-last-chat-did-itself-is-not-told-as-changed-since ()
  "The journal tells whole seconds, so it is asked throughout one."
  (let ((agent-q-chat-history-directory
         (file-name-as-directory
          (make-temp-file (expand-file-name "chats" agent-q-test-directory) t))))
    (agent-q-changes-test--with-chat
        (list (agent-q-changes-test--calls
               '("eval_form" :form "(defun cl-user::aq-undone () 1)"))
              agent-q-changes-test--said)
      (write-region "" nil ".git" nil 'silent)
      (agent-q-changes-test--changing-turn "/eval_form (defun cl-user::aq-undone () 1)")
      (kill-buffer)
      ;; It is told together with what the image says.
      (write-region "" nil (expand-file-name "new.lisp" directory) nil 'silent)
      (set-file-times (expand-file-name "new.lisp" directory) (time-add nil 5))
      (let ((agent-q-provider 'none) (agent-q-chats-recent 50) (end (+ (float-time) 1)))
        (while (< (float-time) end)
          (save-window-excursion
            (let ((default-directory directory)) (agent-q-chat t))
            (agent-q-test-until (agent-q-test-shows "changed since: 1 file (new.lisp)"))
            (should-not (agent-q-test-shows "in the image"))
            (kill-buffer)))))))

(ert-deftest agent-q-changes-lead-to-their-files-from-a-chat-of-another-folder ()
  (let* ((root (file-name-as-directory (make-temp-file "changes" t)))
         (agent-q-project-root root)
         (file (expand-file-name "src/a.txt" root)))
    (make-directory (file-name-directory file))
    (write-region "new\n" nil file nil 'silent)
    (save-window-excursion
      (with-temp-buffer
        (setq default-directory (expand-file-name "test/" root))
        (agent-q-changes-show "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1 +1 @@\n-old\n+new\n"
                              (current-buffer)))
      (set-buffer "*agent-q changes*")
      (diff-hunk-next)
      (should (equal (expand-file-name (diff-find-file-name nil t)) file))
      (kill-buffer))
    (delete-directory root t)))

(ert-deftest agent-q-changes-a-diff-is-told-by-its-files ()
  (should (equal (agent-q-changes-files
                  "--- a/x y.lisp\n+++ b/x y.lisp\n@@ -1,2 +1,2 @@\n (a)\n-(b)\n+(c)\n+(d)\n\
--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+1\nrename from a\nrename to b\n\
--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\nBinary files a/p.png and b/p.png differ\nBinary files a/q.png and /dev/null differ\n")
                 '("x y.lisp +2 -1" "new (new) +1 -0" "b (moved)" "old (deleted) +0 -1" "p.png" "q.png (deleted)")))
  (should-not (agent-q-changes-files "")))

(agent-q-test-image-on-each a-turn-that-changed-something-says-so ()
  "With the diff when it is unfolded, and with buttons; a turn that only looked doesn't."
  (agent-q-changes-test--with-chat
      (list (agent-q-changes-test--calls
             '("create_file" :path "new.txt" :content "x\n")
             '("eval_form" :form "(defun cl-user::aq-undone () 1)")
             '("eval_form" :form "(defvar cl-user::*aq-made* '())")
             '("eval_form" :form "(defun cl-user::aq-brief () 1)")
             '("eval_form" :form "(push 1 cl-user::*aq-made*)")
             '("eval_form" :form "(unintern 'cl-user::aq-brief :cl-user)"))
            agent-q-changes-test--said
            (agent-q-changes-test--calls '("eval_form" :form "(+ 1 2)"))
            agent-q-changes-test--said)
    (agent-q-changes-test--turn "do it")
    (agent-q-test-until (agent-q-test-shows "Changed new.txt (new) +1 -0"))
    ;; Names alone, where they wouldn't fit with all that was done.
    (should (agent-q-test-shows
             "Changed new.txt (new) +1 -0, *AQ-MADE*, AQ-UNDONE  [Diff] [Undo] [Verify]\n"))
    (agent-q-test-find "Changed new.txt")
    (agent-q-render-toggle)
    (should (agent-q-test-shows "\n+++ b/new.txt\n@@ -0,0 +1 @@\n+x\n"))
    ;; What it made and removed again is none of it.
    (should (string-match-p "In the image: \\*AQ-MADE\\* (variable, new), AQ-UNDONE (function, new)$"
                            (agent-q-test-log)))
    (agent-q-changes-test--turn "look")
    (accept-process-output nil 0.3)
    (should (= 1 (how-many "Changed " (point-min) (point-max))))
    ;; Nothing is undone against the user's word.
    (agent-q-test-find "[Undo]")
    (cl-letf (((symbol-function 'y-or-n-p) #'ignore))
      (push-button))
    (accept-process-output nil 0.3)
    (should (file-exists-p (expand-file-name "new.txt" directory)))
    (cl-letf (((symbol-function 'y-or-n-p) #'always))
      (push-button))
    ;; All that the line names, after one question.
    (agent-q-test-until (agent-q-test-shows "Undone:\n- "))
    (should-not (file-exists-p (expand-file-name "new.txt" directory)))
    (agent-q-test-until (equal "NIL" (agent-q-test-image-directly
                                      connection "(fboundp 'cl-user::aq-undone)")))
    (agent-q-test-until (agent-q-test-idle-p))
    (agent-q-test-until (agent-q-test-shows "AQ-UNDONE (undone)\n"))
    (should-not (agent-q-test-shows "[Undo]"))))

(agent-q-test-image-on-each what-the-line-of-a-turn-shows-is-undone ()
  "A later turn that changed the image alone doesn't come before it."
  (agent-q-changes-test--with-chat
      (agent-q-changes-test--file-then-function)
    (agent-q-changes-test--turn "do it")
    (agent-q-test-until (agent-q-test-shows "Changed new.txt (new) +1 -0"))
    (agent-q-changes-test--turn "and this")
    (agent-q-test-until (agent-q-test-shows "Changed AQ-UNDONE"))
    (goto-char (point-min))
    (agent-q-test-find "Changed new.txt")
    (agent-q-test-find "[Undo]")
    (cl-letf (((symbol-function 'y-or-n-p) #'always))
      (push-button))
    (agent-q-test-until (not (file-exists-p (expand-file-name "new.txt" directory))))
    (agent-q-test-until (agent-q-test-shows "new.txt (new) +1 -0 (undone)"))
    (should (equal "T" (agent-q-test-image-directly
                        connection "(and (fboundp 'cl-user::aq-undone) t)")))))

(agent-q-test-image-on-each what-a-turn-changed-is-said-under-it-when-the-next-has-begun ()
  "A message that was queued begins a turn before the image has said what the last one changed."
  (agent-q-changes-test--with-chat
      (list (agent-q-changes-test--calls
             '("create_file" :path "new.txt" :content "x\n")
             '("eval_form" :form "(defun cl-user::aq-undone () 1)"))
            agent-q-changes-test--said agent-q-changes-test--said)
    (agent-q-test-send "do it")
    (agent-q-test-until (agent-q-call-waiting))
    (agent-q-test-send "and then?")
    (while (progn (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
                  (agent-q-call-waiting))
      (agent-q-test-answer "y"))
    (agent-q-test-until (agent-q-test-shows "Changed new.txt (new) +1 -0"))
    (agent-q-test-until (agent-q-test-idle-p))
    (agent-q-test-until (agent-q-test-shows "Only in the image: AQ-UNDONE"))
    (should (string-match-p "^Done\\.\n\\(?:\n\\)*.*Changed new\\.txt.*\nOnly in.*AQ-UNDONE.*\n\\(?:.*\n\\)*.*and then\\?"
                            (agent-q-test-log)))))

(ert-deftest agent-q-changes-what-a-running-turn-will-change-is-not-undone-unseen ()
  "The command asks with what it shows, and that can still grow."
  (agent-q-test-with-chat
    (agent-q-test-event :turn-started :turn 1 :text "q")
    (should-error (call-interactively #'agent-q-undo-turn) :type 'user-error)
    (agent-q-test-event :turn-ended :outcome :finished)
    (call-interactively #'agent-q-undo-turn)
    (agent-q-test-until (agent-q-test-shows "Nothing to undo"))))

(provide 'agent-q-changes-test)
;;; agent-q-changes-test.el ends here
